/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COHERENCE_H
#define FERRYI_COHERENCE_H

/*
 * Coherence: what must move before an access, and what is valid where after it. Pure: no allocation, no lock, no
 * memory but the caller's arrays.
 *
 * A map partitions the bytes [0, bytes) of a buffer into segments, sorted, not empty, each with the set of places that
 * hold its current value: bit p for place p. The empty set means never written: it reads as zero. FERRYI_LOST, always
 * alone, means that the only places that had the value are gone. Neighbours with equal sets are merged.
 *
 * Functions work on a window: consecutive segments of the map that cover at least the range of the access, and of which
 * only the first and last may reach outside it or lie beside it. To keep neighbours merged without looking further,
 * callers include the segments that touch the range from outside.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t ferryi_places;

#define FERRYI_PLACES_MAX       16 /* the host and 15 devices */
#define FERRYI_LOST             ((ferryi_places)1 << 16)
#define FERRYI_PLACE_BIT(place) ((ferryi_places)1 << (place))

struct ferryi_segment {
    size_t begin, end; /* bytes, begin < end */
    ferryi_places places;
};

/* One transfer: bytes [begin, end) from `source`, or zero fill. */
struct ferryi_move {
    size_t begin, end;
    int source; /* a place, or FERRYI_ZERO */
};

#define FERRYI_ZERO (-1)

/* What commit does to the set of each byte in the range. Values 1..3 equal ferry_access. */
enum ferryi_change {
    FERRYI_CHANGE_READ = 1,      /* the place joins; what is lost stays lost */
    FERRYI_CHANGE_WRITE = 2,     /* only the place (UPDATE) */
    FERRYI_CHANGE_OVERWRITE = 3, /* only the place */
    FERRYI_CHANGE_FORGET = 4,    /* the place leaves, unless it is the only one */
    FERRYI_CHANGE_LOSE = 5,      /* the place leaves; where it was the only one the value is lost */
    FERRYI_CHANGE_DISCARD = 6    /* nobody: reads as zero; `place` is ignored */
};

/*
 * The moves that make [begin, end) readable at `place`, in order, joined where neighbours have the same source: at most
 * `count`, written to `moves` (room for `count`). Bytes that `place` holds give no move. `reachable` is the set of
 * places that `place` can copy from directly: among the valid ones the lowest reachable device is preferred (for the
 * host: the lowest device), then the host, then the lowest other device. Segments without a value give zero fills.
 * Segments that are lost give no move and set `*out_lost` to true, else it is false. An empty range gives no move.
 * @return the number of moves
 */
size_t ferryi_coherence_plan(const struct ferryi_segment *window, size_t count, int place, size_t begin, size_t end,
                             ferryi_places reachable, struct ferryi_move *moves, bool *out_lost);

/*
 * The window after the change on [begin, end): written to `out` (room for count + 2), separate from `window`;
 * neighbours merged. Bytes of the window outside the range keep their sets.
 * @return the number of segments, at most count + 2
 */
size_t ferryi_coherence_commit(const struct ferryi_segment *window, size_t count, int place, enum ferryi_change change,
                               size_t begin, size_t end, struct ferryi_segment *out);

/* The set after a change, for one byte. */
ferryi_places ferryi_coherence_change(ferryi_places places, int place, enum ferryi_change change);

/* True when `move` only prolongs `last`: the next bytes from the same source. */
static inline bool
ferryi_move_continues(const struct ferryi_move *last, const struct ferryi_move *move)
{
    return last->end == move->begin && last->source == move->source;
}

#endif
