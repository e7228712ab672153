/* SPDX-License-Identifier: MIT */
#include "src/map/coherence.h"

/* Returns the lowest place of the set that is at least `first`, or FERRYI_PLACES_MAX if there is
 * none. */
/*@
  requires 0 <= first < FERRYI_PLACES_MAX;
  assigns \nothing;
  exits \false;
  ensures first <= \result <= FERRYI_PLACES_MAX;
  ensures lowest: \forall integer p; first <= p < \result ==> !has(places, p);
  ensures member: \result < FERRYI_PLACES_MAX ==> has(places, \result);
*/
static int
lowest_from(ferryi_places places, int first)
{
    int place = first;
    /*@
      loop invariant first <= place <= FERRYI_PLACES_MAX;
      loop invariant lowest: \forall integer p; first <= p < place ==> !has(places, p);
      loop assigns place;
      loop variant FERRYI_PLACES_MAX - place;
    */
    while (place < FERRYI_PLACES_MAX && !(places & FERRYI_PLACE_BIT(place)))
        place++;
    return place;
}

int
ferryi_coherence_source(ferryi_places places, int place, ferryi_places same, ferryi_places reachable)
{
    int holder = lowest_from(places & same, 0);
    if (holder < FERRYI_PLACES_MAX)
        return holder;
    if (places == 0 || places & FERRYI_ZEROS)
        return FERRYI_ZERO;
    if (place != 0) {
        int direct = lowest_from(places & reachable, 1);
        if (direct < FERRYI_PLACES_MAX)
            return direct;
        if (places & FERRYI_PLACE_BIT(0))
            return 0;
    }
    int device = lowest_from(places, 1);
    return device < FERRYI_PLACES_MAX ? device : FERRYI_ZERO;
}

/* Results of find_source() that do not identify a source. NOT_NEEDED: the place already has the bytes.
 * NOWHERE: the bytes are lost. */
#define NOT_NEEDED (-2)
#define NOWHERE    (-3)

/*@
  requires 0 <= place < FERRYI_PLACES_MAX;
  assigns \nothing;
  exits \false;
  ensures not_needed: \result == NOT_NEEDED <==> has(places, place);
  ensures nowhere: \result == NOWHERE <==> !has(places, place) && has(places, 16);
  ensures valid: !has(places, place) && !has(places, 16) ==> source_of(places, \result);
*/
static int
find_source(ferryi_places places, int place, ferryi_places same, ferryi_places reachable)
{
    if (places & FERRYI_PLACE_BIT(place))
        return NOT_NEEDED;
    return places & FERRYI_LOST ? NOWHERE : ferryi_coherence_source(places, place, same, reachable);
}

/* Appends a move to `moves`, which already contains `made` moves. If the new move continues the
 * last move, extends the last move instead. Returns the new number of moves. */
/*@
  requires begin < end && \valid(moves + made) && made < SIZE_MAX;
  requires made > 0 ==> \valid(moves + (made - 1)) && moves[made - 1].end <= begin;
  assigns moves[0 .. made];
  exits \false;
  ensures kept: \forall integer j; 0 <= j < made ==> moves[j].begin == \old(moves[j].begin) &&
    moves[j].source == \old(moves[j].source) && (j < made - 1 ==> moves[j].end == \old(moves[j].end));
  behavior prolongs:
    assumes made > 0 && moves[made - 1].end == begin && moves[made - 1].source == source;
    ensures \result == made && moves[made - 1].end == end;
  behavior adds:
    assumes made == 0 || moves[made - 1].end < begin || moves[made - 1].source != source;
    ensures \result == made + 1 && (made > 0 ==> moves[made - 1].end == \old(moves[made - 1].end));
    ensures moves[made].begin == begin && moves[made].end == end && moves[made].source == source;
  complete behaviors;
  disjoint behaviors;
*/
static size_t
add_move(struct ferryi_move *moves, size_t made, size_t begin, size_t end, int source)
{
    struct ferryi_move move = {begin, end, source};
    if (made > 0 && ferryi_move_continues(&moves[made - 1], &move)) {
        moves[made - 1].end = end;
        return made;
    }
    moves[made] = move;
    return made + 1;
}

size_t
ferryi_coherence_plan(const struct ferryi_segment *window, size_t count, int place, size_t begin, size_t end,
                      ferryi_places same, ferryi_places reachable, struct ferryi_move *moves, bool *out_lost)
{
    size_t made = 0;
    bool lost = false;

    /*@
      loop invariant 0 <= i <= count && 0 <= made <= i;
      loop invariant kept: same{Pre, Here}(window, count);
      loop invariant inside: \forall integer j; 0 <= j < made ==> begin <= moves[j].begin < moves[j].end <= end;
      loop invariant behind: \forall integer j; 0 <= j < made ==> moves[j].end <= end_of{Pre}(window, i - 1);
      loop invariant in_order: \forall integer k, j; 0 <= k < j < made ==> moves[k].end <= moves[j].begin;
      loop invariant joined: \forall integer j; 0 < j < made ==>
        moves[j - 1].end < moves[j].begin || moves[j - 1].source != moves[j].source;
      loop invariant from_valid: all_given{Pre, Here}(window, count, moves, made, place);
      loop invariant all: all_brought{Pre, Here}(window, i, moves, made, place, begin, end);
      loop invariant lost: lost ==> some_lost{Pre}(window, i, begin, end);
      loop invariant not_lost: !lost ==> none_lost{Pre}(window, i, begin, end);
      loop assigns i, made, lost, moves[0 .. count - 1];
      loop variant count - i;
    */
    for (size_t i = 0; i < count; i++) {
        size_t part_begin = window[i].begin > begin ? window[i].begin : begin;
        size_t part_end = window[i].end < end ? window[i].end : end;
        int source = find_source(window[i].places, place, same, reachable);
        if (part_begin >= part_end || source == NOT_NEEDED)
            continue;
        /*@ assert alone: \forall integer k; 0 <= k < count && k != i ==>
              !meet(begin_of{Pre}(window, k), end_of{Pre}(window, k), part_begin, part_end); */
        /*@ assert before: \forall integer j; 0 <= j < made ==> moves[j].end <= part_begin; */
        if (source == NOWHERE)
            lost = true;
        else
            made = add_move(moves, made, part_begin, part_end, source);
    }

    *out_lost = lost;
    return made;
}

ferryi_places
ferryi_coherence_change(ferryi_places places, int place, enum ferryi_change change)
{
    if (change == FERRYI_CHANGE_DISCARD)
        return 0;

    ferryi_places bit = FERRYI_PLACE_BIT(place);
    if (change == FERRYI_CHANGE_WRITE || change == FERRYI_CHANGE_OVERWRITE)
        return bit;
    /* Lost bytes stay lost unless the change writes or discards them. */
    if (places & FERRYI_LOST)
        return places;
    /* A read marks bytes that were never written with FERRYI_ZEROS, so they still count as never
     * written. */
    if (change == FERRYI_CHANGE_READ)
        return places == 0 ? FERRYI_ZEROS | bit : places | bit;
    if (places == bit)
        return change == FERRYI_CHANGE_LOSE ? FERRYI_LOST : places;
    return places == (FERRYI_ZEROS | bit) ? 0 : places & ~bit;
}

/* Appends the segment [begin, end), which must not be empty, to the `made` segments of `out`. If
 * the last segment has the same set, extends the last segment instead. Returns the new number of
 * segments. */
/*@
  requires begin < end && \valid(out + made) && made < SIZE_MAX;
  requires made > 0 ==> \valid(out + (made - 1)) && out[made - 1].end == begin;
  assigns out[0 .. made];
  exits \false;
  ensures kept: \forall integer j; 0 <= j < made ==> out[j].begin == \old(out[j].begin) &&
    out[j].places == \old(out[j].places) && (j < made - 1 ==> out[j].end == \old(out[j].end));
  behavior prolongs:
    assumes made > 0 && out[made - 1].places == places;
    ensures \result == made && out[made - 1].end == end;
  behavior adds:
    assumes made == 0 || out[made - 1].places != places;
    ensures \result == made + 1 && (made > 0 ==> out[made - 1].end == \old(out[made - 1].end));
    ensures out[made].begin == begin && out[made].end == end && out[made].places == places;
  complete behaviors;
  disjoint behaviors;
*/
static size_t
append(struct ferryi_segment *out, size_t made, size_t begin, size_t end, ferryi_places places)
{
    if (made > 0 && out[made - 1].places == places) {
        out[made - 1].end = end;
        return made;
    }
    out[made].begin = begin;
    out[made].end = end;
    out[made].places = places;
    return made + 1;
}

size_t
ferryi_coherence_commit(const struct ferryi_segment *window, size_t count, int place, enum ferryi_change change,
                        size_t begin, size_t end, struct ferryi_segment *out)
{
    size_t made = 0;

    /*@
      loop invariant 0 <= i <= count && (made > 0 <==> i > 0);
      loop invariant kept: same{Pre, Here}(window, count);
      loop invariant few: made <= i + (i > 0 && begin < end_of{Pre}(window, i - 1) ? 1 : 0) +
        (i > 0 && end < end_of{Pre}(window, i - 1) ? 1 : 0);
      loop invariant same_bytes: i > 0 ==> out[0].begin == begin_of{Pre}(window, 0) &&
        out[made - 1].end == end_of{Pre}(window, i - 1);
      loop invariant partition: window(out, made);
      loop invariant merged: merged(out, made);
      loop invariant follow: all_follow{Pre, Here}(window, count, out, made, place, change, begin, end);
      loop assigns i, made, out[0 .. count + 1];
      loop variant count - i;
    */
    for (size_t i = 0; i < count; i++) {
        size_t at = window[i].begin, segment_end = window[i].end;
        ferryi_places places = window[i].places;

        /* Each iteration appends one part of segment i: the part before, inside or after [begin,
         * end). Only the segments that contain `begin` or `end` have more than one part. So `out`
         * receives at most count + 2 segments. */
        /*@
          loop invariant at == begin_of{Pre}(window, i) || at == begin || at == end || at == segment_end;
          loop invariant begin_of{Pre}(window, i) <= at <= segment_end;
          loop invariant made > 0 <==> (i > 0 || at > begin_of{Pre}(window, i));
          loop invariant few: made <= i + (at > begin_of{Pre}(window, i) ? 1 : 0) + (begin < at ? 1 : 0) +
            (end < at ? 1 : 0);
          loop invariant first: made > 0 ==> out[0].begin == begin_of{Pre}(window, 0);
          loop invariant last: made > 0 ==> out[made - 1].end == at;
          loop invariant partition: window(out, made);
          loop invariant merged: merged(out, made);
          loop invariant follow: all_follow{Pre, Here}(window, count, out, made, place, change, begin, end);
          loop assigns at, made, out[0 .. count + 1];
          loop variant segment_end - at;
        */
        while (at < segment_end) {
            bool inside = begin <= at && at < end;
            size_t part_end = at < begin ? begin : inside ? end : segment_end;
            if (part_end > segment_end)
                part_end = segment_end;
            /*@ assert alone: \forall integer k; 0 <= k < count && k != i ==>
                  !meet(begin_of{Pre}(window, k), end_of{Pre}(window, k), at, part_end); */
            made = append(out, made, at, part_end, inside ? ferryi_coherence_change(places, place, change) : places);
            at = part_end;
        }
    }
    return made;
}
