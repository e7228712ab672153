/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COHERENCE_H
#define FERRYI_COHERENCE_H

/*
 * Functions for the coherence of a buffer's replicas. They compute which bytes must be moved before
 * an access, and which places (the host or a device) hold the bytes after the access. The functions
 * are pure: they allocate nothing, lock nothing, and use only the caller's arrays.
 *
 * A valid map partitions the bytes [0, bytes) of a buffer into sorted segments, none of which is
 * empty. Each segment has a set: the places that hold the current value of the segment's bytes. Bit
 * p of the set represents place p. The empty set means that the bytes were never written, so the
 * bytes read as zero. Neighbouring segments with equal sets are merged.
 *
 * A set may contain two further bits:
 * - FERRYI_ZEROS occurs only together with places. The bytes were never written, and these places
 *   were filled with zeros for a reader.
 * - FERRYI_LOST occurs only alone. Every place that held the value has lost it.
 *
 * The function ferryi_coherence_commit() changes the sets of a byte range. It works on a window:
 * consecutive segments of the map that cover at least this range. Only the first and the last
 * segment of the window may extend beyond the range or be adjacent to it from outside. Callers
 * include the adjacent segments, so that neighbours with equal sets can be merged.
 *
 * Comments that begin with an @ are contracts in the specification language ACSL. The command ./dev
 * prove proves them. See docs/reliability.md.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t ferryi_places;

#define FERRYI_PLACES_MAX       16 /* the host and 15 devices */
#define FERRYI_EVERY_PLACE      (((ferryi_places)1 << FERRYI_PLACES_MAX) - 1)
#define FERRYI_LOST             ((ferryi_places)1 << 16)
#define FERRYI_ZEROS            ((ferryi_places)1 << 17)
#define FERRYI_PLACE_BIT(place) ((ferryi_places)1 << (place))

struct ferryi_segment {
    size_t begin, end; /* bytes, begin < end */
    ferryi_places places;
};

/* Describes one transfer. The bytes [begin, end) are copied from the place `source`. If `source` is
 * FERRYI_ZERO, these bytes are filled with zeros instead. */
struct ferryi_map_move {
    size_t begin, end;
    int source; /* a place, or FERRYI_ZERO */
};

#define FERRYI_ZERO (-1)

/* ferryi_coherence_find() returns one of these values instead of a source place. FERRYI_NOT_NEEDED
 * means that the destination already has the bytes. FERRYI_NOWHERE means that no place has the
 * bytes, because they were lost. */
#define FERRYI_NOT_NEEDED (-2)
#define FERRYI_NOWHERE    (-3)

/* Effect of ferryi_coherence_commit() on the set of places that hold each byte of the range. The
 * values 1 to 3 equal the values of the public enum ferry_access. */
enum ferryi_change {
    /* Adds the place to the set of places. Lost bytes stay lost, and bytes that were never written
     * still count as such. */
    FERRYI_CHANGE_READ = 1,
    FERRYI_CHANGE_WRITE = 2,     /* sets only the place (UPDATE) */
    FERRYI_CHANGE_OVERWRITE = 3, /* sets only the place */
    /* Removes the place from the set of places, unless that place holds the only copy of a written
     * value. */
    FERRYI_CHANGE_FORGET = 4,
    /* Removes the place from the set of places. If that place holds the only copy of a written value,
     * the bytes become lost. */
    FERRYI_CHANGE_LOSE = 5,
    /* Empties the set of places, so the bytes read as zero. The parameter `place` is ignored. */
    FERRYI_CHANGE_DISCARD = 6
};

/*@
  // The places of a set. Place 16 is FERRYI_LOST: a set that contains it contains nothing else. Place 17 is
  // FERRYI_ZEROS: a set that contains it also contains a place.
  predicate has(integer places, integer place) = (places & (1 << place)) != 0;
  predicate is_set(integer places) =
    has(places, 16) ? places == FERRYI_LOST :
      places != FERRYI_ZEROS && \forall integer p; 18 <= p < 32 ==> !has(places, p);

  // The set after a change. The contract of ferryi_coherence_change() states the effect on each place.
  logic integer bit(integer place) = (ferryi_places)((ferryi_places)1 << place);
  logic integer changed(integer places, integer place, integer change) =
    change == FERRYI_CHANGE_DISCARD ? 0 :
    change == FERRYI_CHANGE_WRITE || change == FERRYI_CHANGE_OVERWRITE ? bit(place) :
    (places & (1 << 16)) != 0 ? places :
    change == FERRYI_CHANGE_READ ? (places == 0 ? FERRYI_ZEROS | bit(place) : places | bit(place)) :
    places == bit(place) ? (change == FERRYI_CHANGE_LOSE ? FERRYI_LOST : places) :
    places == (FERRYI_ZEROS | bit(place)) ? 0 :
    places & (ferryi_places)~(ferryi_places)bit(place);

  // Segments that follow each other without a gap. sorted() is needed because the provers are weak at induction.
  predicate sorted{L}(struct ferryi_segment *s, integer count) =
    (\forall integer i; 0 <= i < count ==> s[i].begin < s[i].end) &&
    (\forall integer i, j; 0 <= i < j < count ==> s[i].end <= s[j].begin);
  predicate gapless{L}(struct ferryi_segment *s, integer count) =
    \forall integer i; 0 < i < count ==> s[i - 1].end == s[i].begin;
  predicate merged{L}(struct ferryi_segment *s, integer count) =
    \forall integer i; 0 < i < count ==> s[i - 1].places != s[i].places;
  predicate sets{L}(struct ferryi_segment *s, integer count) =
    \forall integer i; 0 <= i < count ==> is_set(s[i].places);
  predicate window{L}(struct ferryi_segment *s, integer count) =
    sorted(s, count) && gapless(s, count) && sets(s, count);

  logic integer begin_of{L}(struct ferryi_segment *s, integer i) = s[i].begin;
  logic integer end_of{L}(struct ferryi_segment *s, integer i) = s[i].end;

  // meet: some byte lies in both ranges. meet3: some byte lies in all three ranges.
  predicate meet(integer a, integer a_end, integer b, integer b_end) =
    a < a_end && a < b_end && b < a_end && b < b_end;
  predicate meet3(integer a, integer a_end, integer b, integer b_end, integer c, integer c_end) =
    meet(a, a_end, b, b_end) && meet(a, a_end, c, c_end) && meet(b, b_end, c, c_end);

  // source_of: the source can provide the bytes.
  predicate source_of(integer places, integer source) =
    source == FERRYI_ZERO ? has(places, 17) || \forall integer p; 0 <= p < FERRYI_PLACES_MAX ==> !has(places, p) :
    0 <= source < FERRYI_PLACES_MAX && has(places, source);

  // The bytes that a segment of the window (W) shares with a new segment (N) have the set after the change.
  predicate follows{W, N}(struct ferryi_segment *old, struct ferryi_segment *new, integer place, integer change,
                          integer begin, integer end) =
    \let b = \at(old->begin, W); \let e = \at(old->end, W); \let was = \at(old->places, W);
    \let nb = \at(new->begin, N); \let ne = \at(new->end, N); \let is = \at(new->places, N);
    (meet3(b, e, nb, ne, begin, end) ==> is == changed(was, place, change)) &&
    (meet(b, e, nb, ne) && ((b < begin && nb < begin) || (end < e && end < ne)) ==> is == was);
  predicate all_follow{W, N}(struct ferryi_segment *old, integer count, struct ferryi_segment *new, integer made,
                             integer place, integer change, integer begin, integer end) =
    \forall integer i, j; 0 <= i < count && 0 <= j < made ==>
      follows{W, N}(old + i, new + j, place, change, begin, end);
  predicate same{W, N}(struct ferryi_segment *s, integer count) =
    \forall integer i; 0 <= i < count ==> \at(s[i].begin, N) == \at(s[i].begin, W) &&
      \at(s[i].end, N) == \at(s[i].end, W) && \at(s[i].places, N) == \at(s[i].places, W);
*/

/*
 * Returns the source from which the place `place` receives bytes. `places` is the set of places
 * that hold these bytes. It must not contain `place`.
 *
 * `same` is the set of places that share the memory of `place`. A place of `same` that holds the
 * bytes is preferred to all other sources, because a move from it copies nothing. `reachable` is
 * the set of places from which `place` can copy directly. If no place of `same` holds the bytes,
 * the source is the first in this list that holds them:
 * - if `place` is a device: the reachable device with the lowest number, then the host
 * - the device with the lowest number
 *
 * Returns FERRYI_ZERO if the bytes must be filled with zeros. This is so if the bytes were never
 * written, and no place of `same` already holds zeros for them.
 */
/*@
  requires 0 <= place < FERRYI_PLACES_MAX && !has(places, place);
  assigns \nothing;
  exits \false;
  ensures valid: source_of(places, \result) && \result != place;
  // The lowest place with the same memory.
  ensures same: (\exists integer p; 0 <= p < FERRYI_PLACES_MAX && has(places, p) && has(same, p)) ==>
    0 <= \result && has(same, \result) &&
    \forall integer p; 0 <= p < \result ==> !has(places, p) || !has(same, p);
  // If there is none, bytes that were never written are filled with zeros.
  ensures zeros: has(places, 17) ==>
    (\forall integer p; 0 <= p < FERRYI_PLACES_MAX ==> !has(places, p) || !has(same, p)) ==> \result == FERRYI_ZERO;
  // Otherwise the lowest reachable device, then the host, then the lowest device. For the host: the lowest device.
  ensures direct: place != 0 && !has(places, 17) ==>
    (\forall integer p; 0 <= p < FERRYI_PLACES_MAX ==> !has(places, p) || !has(same, p)) ==>
    (\exists integer p; 1 <= p < FERRYI_PLACES_MAX && has(places, p) && has(reachable, p)) ==>
    1 <= \result && has(reachable, \result) &&
    \forall integer p; 1 <= p < \result ==> !has(places, p) || !has(reachable, p);
  ensures host: place != 0 && !has(places, 17) ==> has(places, 0) ==>
    (\forall integer p; 0 <= p < FERRYI_PLACES_MAX ==> !has(places, p) || !has(same, p)) ==>
    (\forall integer p; 1 <= p < FERRYI_PLACES_MAX ==> !has(places, p) || !has(reachable, p)) ==> \result == 0;
  ensures other: \result > 0 ==> !has(same, \result) ==> (place == 0 || !has(reachable, \result)) ==>
    \forall integer p; 1 <= p < \result ==> !has(places, p);
*/
int ferryi_coherence_source(ferryi_places places, int place, ferryi_places same, ferryi_places reachable);

/* Works like ferryi_coherence_source(), but also accepts sets for which no source is needed or
 * exists. Returns FERRYI_NOT_NEEDED if `place` is in the set `places`. Returns FERRYI_NOWHERE if
 * the bytes are lost. */
/*@
  requires 0 <= place < FERRYI_PLACES_MAX;
  assigns \nothing;
  exits \false;
  ensures not_needed: \result == FERRYI_NOT_NEEDED <==> has(places, place);
  ensures nowhere: \result == FERRYI_NOWHERE <==> !has(places, place) && has(places, 16);
  ensures valid: !has(places, place) && !has(places, 16) ==> source_of(places, \result);
*/
int ferryi_coherence_find(ferryi_places places, int place, ferryi_places same, ferryi_places reachable);

/*
 * Applies a change to the bytes [begin, end) of `window`, an array of consecutive segments of a
 * valid map. Merges neighbouring segments with equal sets of places. Writes the new segments to
 * `out`, which must have room for count + 2 segments and must not overlap `window`. Bytes outside
 * [begin, end) keep their sets.
 * @return the number of segments written to `out`, at most count + 2
 */
/*@
  requires place: change == FERRYI_CHANGE_DISCARD || 0 <= place < FERRYI_PLACES_MAX;
  requires change: FERRYI_CHANGE_READ <= change <= FERRYI_CHANGE_DISCARD;
  requires window: window(window, count) && begin <= end && count <= SIZE_MAX - 2;
  requires room: \valid_read(window + (0 .. count - 1)) && \valid(out + (0 .. count + 1));
  requires \separated(window + (0 .. count - 1), out + (0 .. count + 1));
  assigns out[0 .. count + 1];
  exits \false;
  ensures few: \result <= count + 2 && (\result > 0 <==> count > 0);
  ensures same_bytes: count > 0 ==> out[0].begin == window[0].begin && out[\result - 1].end == window[count - 1].end;
  ensures partition: window(out, \result);
  ensures merged: merged(out, \result);
  ensures follow: all_follow{Pre, Here}(window, count, out, \result, place, change, begin, end);
*/
size_t ferryi_coherence_commit(const struct ferryi_segment *window, size_t count, int place, enum ferryi_change change,
                               size_t begin, size_t end, struct ferryi_segment *out);

/* Returns the set of places that hold a byte after a change. `places` is the set before the change.
 */
/*@
  requires place: change == FERRYI_CHANGE_DISCARD || 0 <= place < FERRYI_PLACES_MAX;
  requires change: FERRYI_CHANGE_READ <= change <= FERRYI_CHANGE_DISCARD;
  requires is_set(places);
  assigns \nothing;
  exits \false;
  ensures named: \result == changed(places, place, change);
  ensures set: is_set(\result);
  ensures write: change == FERRYI_CHANGE_WRITE || change == FERRYI_CHANGE_OVERWRITE ==>
    \forall integer p; 0 <= p < 32 ==> (has(\result, p) <==> p == place);
  ensures stays_lost: has(places, 16) && (change == FERRYI_CHANGE_READ || change == FERRYI_CHANGE_FORGET ||
    change == FERRYI_CHANGE_LOSE) ==> \result == places;
  ensures read: change == FERRYI_CHANGE_READ && !has(places, 16) && places != 0 ==>
    \forall integer p; 0 <= p < 32 ==> (has(\result, p) <==> has(places, p) || p == place);
  ensures read_zeros: change == FERRYI_CHANGE_READ && places == 0 ==> \result == (FERRYI_ZEROS | bit(place));
  ensures leave: (change == FERRYI_CHANGE_FORGET || change == FERRYI_CHANGE_LOSE) && !has(places, 16) &&
    places != bit(place) && places != (FERRYI_ZEROS | bit(place)) ==>
    \forall integer p; 0 <= p < 32 ==> (has(\result, p) <==> has(places, p) && p != place);
  ensures leave_zeros: (change == FERRYI_CHANGE_FORGET || change == FERRYI_CHANGE_LOSE) && !has(places, 16) &&
    places != bit(place) && places == (FERRYI_ZEROS | bit(place)) ==> \result == 0;
  ensures forget_only: change == FERRYI_CHANGE_FORGET && places == bit(place) ==> \result == places;
  ensures lose_only: change == FERRYI_CHANGE_LOSE && places == bit(place) ==> \result == FERRYI_LOST;
  ensures discard: change == FERRYI_CHANGE_DISCARD ==> \result == 0;
*/
ferryi_places ferryi_coherence_change(ferryi_places places, int place, enum ferryi_change change);

/* Returns whether bytes with this set of places were written and at least one place holds their
 * value. */
/*@
  assigns \nothing;
  exits \false;
  ensures \result <==> (places & FERRYI_EVERY_PLACE) != 0 && !has(places, 17);
*/
static inline bool
ferryi_places_written(ferryi_places places)
{
    return (places & FERRYI_EVERY_PLACE) != 0 && !(places & FERRYI_ZEROS);
}

#endif
