/* SPDX-License-Identifier: MIT */
#include "src/coherence.h"

/* The lowest device in the set; FERRYI_PLACES_MAX when it has none. */
static int
lowest_device(ferryi_places places)
{
    int device = 1;
    while (device < FERRYI_PLACES_MAX && !(places & FERRYI_PLACE_BIT(device)))
        device++;
    return device;
}

/* Where a place that is not in the set gets the value from. The set has at least one place. */
static int
choose_source(ferryi_places places, int place, ferryi_places reachable)
{
    if (place != 0) {
        int direct = lowest_device(places & reachable);
        if (direct < FERRYI_PLACES_MAX)
            return direct;
        if (places & FERRYI_PLACE_BIT(0))
            return 0;
    }
    return lowest_device(places);
}

size_t
ferryi_coherence_plan(const struct ferryi_segment *window, size_t count, int place, size_t begin, size_t end,
                      ferryi_places reachable, struct ferryi_move *moves, bool *out_lost)
{
    size_t made = 0;
    bool lost = false;

    for (size_t i = 0; i < count; i++) {
        struct ferryi_move move;
        ferryi_places places = window[i].places;
        move.begin = window[i].begin > begin ? window[i].begin : begin;
        move.end = window[i].end < end ? window[i].end : end;
        if (move.begin >= move.end || (places & FERRYI_PLACE_BIT(place)))
            continue;
        if (places & FERRYI_LOST) {
            lost = true;
            continue;
        }
        move.source = places == 0 ? FERRYI_ZERO : choose_source(places, place, reachable);
        if (made > 0 && ferryi_move_continues(&moves[made - 1], &move)) {
            moves[made - 1].end = move.end;
        } else {
            moves[made] = move;
            made++;
        }
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
    switch (change) {
    case FERRYI_CHANGE_READ:
        return places & FERRYI_LOST ? places : places | bit;
    case FERRYI_CHANGE_WRITE:
    case FERRYI_CHANGE_OVERWRITE:
        return bit;
    case FERRYI_CHANGE_FORGET:
        return places == bit ? places : places & ~bit;
    case FERRYI_CHANGE_LOSE:
        return places == bit ? FERRYI_LOST : places & ~bit;
    case FERRYI_CHANGE_DISCARD: /* answered above: `place` need not be one */
        break;
    }
    return places;
}

/* Put [begin, end) after the `made` segments in `out`, merged with the last where the sets are equal; nothing for an
 * empty range. Returns how many there are then. */
static size_t
append(struct ferryi_segment *out, size_t made, size_t begin, size_t end, ferryi_places places)
{
    if (begin >= end)
        return made;
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

    /* Each segment falls into the parts before, inside and after the range. Only the one that `begin` cuts and the one
     * that `end` cuts have more than one part, hence count + 2. */
    for (size_t i = 0; i < count; i++) {
        struct ferryi_segment segment = window[i];
        size_t inside_begin = segment.begin > begin ? segment.begin : begin;
        size_t inside_end = segment.end < end ? segment.end : end;
        size_t before_end = segment.end < begin ? segment.end : begin;
        size_t after_begin = segment.begin > end ? segment.begin : end;
        made = append(out, made, segment.begin, before_end, segment.places);
        made = append(out, made, inside_begin, inside_end, ferryi_coherence_change(segment.places, place, change));
        made = append(out, made, after_begin, segment.end, segment.places);
    }
    return made;
}
