/* SPDX-License-Identifier: MIT */
#include "src/map/coherence.h"

/* Returns the lowest place number in the set `places` that is at least `first`. Returns
 * FERRYI_PLACES_MAX if the set has no such place. */
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

int
ferryi_coherence_find(ferryi_places places, int place, ferryi_places same, ferryi_places reachable)
{
    if (places & FERRYI_PLACE_BIT(place))
        return FERRYI_NOT_NEEDED;
    return places & FERRYI_LOST ? FERRYI_NOWHERE : ferryi_coherence_source(places, place, same, reachable);
}

ferryi_places
ferryi_coherence_change(ferryi_places places, int place, enum ferryi_change change)
{
    if (change == FERRYI_CHANGE_DISCARD)
        return 0;

    ferryi_places bit = FERRYI_PLACE_BIT(place);
    if (change == FERRYI_CHANGE_WRITE || change == FERRYI_CHANGE_OVERWRITE)
        return bit;
    /* Lost bytes stay lost after a read and after the removal of a place. Writes and discards were
     * handled above. */
    if (places & FERRYI_LOST)
        return places;
    /* If the bytes were never written, the reader receives zeros. The bit FERRYI_ZEROS records that
     * the bytes still count as never written. */
    if (change == FERRYI_CHANGE_READ)
        return places == 0 ? FERRYI_ZEROS | bit : places | bit;
    if (places == bit)
        return change == FERRYI_CHANGE_LOSE ? FERRYI_LOST : places;
    return places == (FERRYI_ZEROS | bit) ? 0 : places & ~bit;
}

/* Appends the segment [begin, end) to the array `out`, which already contains `made` segments. The
 * segment must not be empty. If the last segment in `out` has an equal set of places, extends that
 * last segment instead. Returns the new number of segments. */
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

        /* Segment i has up to three parts: before, inside and after the range [begin, end). Each
         * iteration appends one part. Only the segments that contain `begin` or `end` have more
         * than one part. So `out` receives at most count + 2 segments. */
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
