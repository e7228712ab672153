/* SPDX-License-Identifier: MIT */

/*
 * graph: breadth-first search. Finds how many edges away from the first vertex each vertex is.
 *
 * A level is two launches. The first one visits the neighbours of the front. Many vertices may reach the same neighbour,
 * so it changes levels by atomic operations. The second one makes the next front and counts it, in one pass; the count
 * is all that the host waits for. The arrays of levels and fronts are created on the device and never go up.
 *
 * graph [VERTICES [DEGREE]]    the graph has up to DEGREE random edges from each vertex
 *
 * The program compares the levels with those of plain C. FERRY_DEVICE selects the device.
 */

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/bool.h>
#include <ferry/ferry.h>
#include <ferry/int.h>
#include <ferry/int64.h>

#include "../traffic.h"
#include "graph_kernels.h"

#define UNREACHED INT_MAX

/* The neighbours of vertex i are targets[starts[i]] up to, and without, targets[starts[i + 1]]. */
struct graph {
    size_t vertices, edges;
    int64_t *starts;
    int *targets;
};

struct search {
    struct graph graph;
    int *expected, *found; /* levels */
    int steps;             /* of Ferry's search: levels that it looked for */
};

/* -- the graph ------------------------------------------------------------------------------------- */

static uint32_t
next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static bool
create_search(size_t vertices, size_t degree, struct search *out)
{
    uint64_t random = 1;
    struct graph *graph = &out->graph;
    *out = (struct search){.graph = {.vertices = vertices, .starts = malloc((vertices + 1) * sizeof(int64_t)),
                                     .targets = malloc(vertices * degree * sizeof(int))},
                           .expected = malloc(vertices * sizeof(int)), .found = malloc(vertices * sizeof(int))};
    if (!graph->starts || !graph->targets || !out->expected || !out->found)
        return false;
    for (size_t i = 0; i < vertices; i++) {
        graph->starts[i] = (int64_t)graph->edges;
        for (size_t left = i == 0 ? degree : next_random(&random) % (degree + 1); left > 0; left--)
            graph->targets[graph->edges++] = (int)(next_random(&random) % vertices);
    }
    graph->starts[vertices] = (int64_t)graph->edges;
    return true;
}

static void
free_search(struct search *search)
{
    free(search->graph.starts);
    free(search->graph.targets);
    free(search->expected);
    free(search->found);
}

/* -- plain C --------------------------------------------------------------------------------------- */

/* The usual search, with a queue of the vertices that were reached. */
static bool
search_in_plain_c(struct search *search)
{
    const struct graph *graph = &search->graph;
    int *queue = malloc(graph->vertices * sizeof(int));
    size_t end = 1;
    if (!queue)
        return false;
    for (size_t i = 0; i < graph->vertices; i++)
        search->expected[i] = UNREACHED;
    queue[0] = search->expected[0] = 0;
    for (size_t next = 0; next < end; next++) {
        int from = queue[next];
        for (int64_t k = graph->starts[from]; k < graph->starts[from + 1]; k++) {
            int to = graph->targets[k];
            if (search->expected[to] != UNREACHED)
                continue;
            search->expected[to] = search->expected[from] + 1;
            queue[end++] = to;
        }
    }
    free(queue);
    return true;
}

/* -- with Ferry ------------------------------------------------------------------------------------ */

static ferry_status
search_with_ferry(ferry_context *context, const graph_kernels *kernels, struct search *search)
{
    const struct graph *graph = &search->graph;
    ferry_stream *stream = ferry_context_stream(context, 1);
    const ferry_copy_options on_device = {.stream = stream};
    ferry_int64_buffer starts = {0};
    ferry_int_buffer targets = {0}, levels = {0};
    ferry_bool_buffer front = {0};
    graph_advance_results reached;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_int64_create_from(context, graph->vertices + 1, graph->starts, NULL, &starts));
    FERRY_TRY(status, fail, ferry_int_create_from(context, graph->edges, graph->targets, NULL, &targets));
    FERRY_TRY(status, fail, ferry_int_create(context, graph->vertices, NULL, &levels));
    FERRY_TRY(status, fail, ferry_bool_create(context, graph->vertices, NULL, &front));
    FERRY_TRY(status, fail, ferry_int_fill(levels, 0, FERRY_REST, UNREACHED, &on_device));
    FERRY_TRY(status, fail, ferry_int_fill(levels, 0, 1, 0, &on_device));
    do {
        int level = search->steps++;
        if (level > 0)
            FERRY_TRY(status, fail, graph_reach(kernels, stream, starts, targets, front, level, levels));
        FERRY_TRY(status, fail, graph_advance(kernels, stream, levels, level, front, &reached));
    } while (reached.members > 0);
    FERRY_TRY(status, fail, ferry_int_copy_to(levels, 0, graph->vertices, search->found, NULL));
fail:
    ferry_bool_destroy(&front);
    ferry_int_destroy(&levels);
    ferry_int_destroy(&targets);
    ferry_int64_destroy(&starts);
    return status;
}

/* -- the program ----------------------------------------------------------------------------------- */

static bool
is_exact(const struct search *search)
{
    bool exact = memcmp(search->found, search->expected, search->graph.vertices * sizeof(int)) == 0;
    printf("%zu vertices, %zu edges, %d levels: %s\n", search->graph.vertices, search->graph.edges, search->steps - 1,
           exact ? "exact" : "WRONG");
    return exact;
}

/* The graph goes up. The levels come down, and the count of each level. */
static bool
crossed_the_least(ferry_context *context, const struct search *search)
{
    const struct graph *graph = &search->graph;
    return traffic_is_minimal(context, (graph->vertices + 1) * sizeof(int64_t) + graph->edges * sizeof(int),
                              graph->vertices * sizeof(int) + (uint64_t)search->steps * sizeof(uint64_t));
}

int
main(int argc, char **argv)
{
    unsigned long vertices = argc > 1 ? strtoul(argv[1], NULL, 10) : 50000, degree = argc > 2 ? strtoul(argv[2], NULL, 10) : 6;
    struct search search = {.steps = 0};
    ferry_context *context = NULL;
    graph_kernels kernels = {0};
    bool good = false;
    ferry_status status;
    if (argc > 3 || vertices < 1 || vertices > INT_MAX || degree < 1 || degree > 1000) {
        fputs("usage: graph [VERTICES [DEGREE]], a degree up to 1000\n", stderr);
        return 2;
    }
    if (!create_search(vertices, degree, &search)) {
        free_search(&search);
        fputs("graph: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, graph_kernels_create(context, &kernels));
    FERRY_TRY(status, fail, search_with_ferry(context, &kernels, &search));
    good = crossed_the_least(context, &search);
    good = search_in_plain_c(&search) && is_exact(&search) && good;
fail:
    if (status != FERRY_OK)
        fprintf(stderr, "graph: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    graph_kernels_destroy(&kernels);
    ferry_context_destroy(&context);
    free_search(&search);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
