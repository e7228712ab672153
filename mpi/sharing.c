/* SPDX-License-Identifier: MIT */
#include "mpi/internal.h"

#include <stdio.h>

#include <ferry/share.h>

/*
 * Buffers whose memory the ranks of one machine share. Ranks that wait for another rank always get
 * a message from it, also if it fails: then the message has its status and text.
 */

/* How a call of Ferry ended on another rank. */
struct report {
    ferry_status status;
    char text[1024];
};

static struct report
report_of(ferry_status status)
{
    struct report report = {.status = status};
    if (status != FERRY_OK)
        snprintf(report.text, sizeof(report.text), "%s", ferry_last_error());
    return report;
}

/* Returns the status that `rank` has reported, which may be this rank. */
static ferry_status
status_of(const ferry_mpi *mpi, const struct report *report, int rank, const char *what)
{
    if (report->status == FERRY_OK)
        return FERRY_OK;
    if (rank == mpi->rank)
        return ferryi_mpi_fail(report->status, "%s: %s", what, report->text);
    return ferryi_mpi_fail(report->status, "%s: rank %d failed: %s", what, rank, report->text);
}

/* -- share ------------------------------------------------------------------------------------- */

/* What the root broadcasts. */
struct exported {
    struct report report;
    ferry_share share; /* if the report has FERRY_OK */
};

ferry_status
ferry_mpi_share(ferry_mpi *mpi, const ferry_element *element, ferry_buffer *source, int root,
                const ferry_share_options *options, ferry_buffer **out)
{
    static const char what[] = "share a buffer";
    struct exported exported = {.report = {.status = FERRY_OK}};
    ferry_status status = ferryi_mpi_check(mpi, what);
    if (status != FERRY_OK)
        return status;
    if (mpi->rank == root)
        exported.report = report_of(ferry_buffer_export(source, &exported.share));
    int code = MPI_Bcast(&exported, sizeof(exported), MPI_BYTE, root, mpi->communicator);
    status = code == MPI_SUCCESS ? status_of(mpi, &exported.report, root, what)
                                 : ferryi_mpi_fail_by_mpi(code, what);
    if (status == FERRY_OK && mpi->rank != root) {
        status = ferry_buffer_import(mpi->context, element, &exported.share, options, out);
        if (status != FERRY_OK)
            status = ferryi_mpi_fail_by_ferry(status, what);
    }
    /* The handle finds the memory only as long as the root has the buffer. */
    code = MPI_Barrier(mpi->communicator);
    return code == MPI_SUCCESS || status != FERRY_OK ? status : ferryi_mpi_fail_by_mpi(code, what);
}

/* -- handing over ------------------------------------------------------------------------------ */

/* The ranks that an argument means: one, or all but this one. */
struct ranks {
    int first, end;
};

static struct ranks
ranks_of(const ferry_mpi *mpi, int rank)
{
    return rank == FERRY_MPI_OTHERS ? (struct ranks){0, mpi->size} : (struct ranks){rank, rank + 1};
}

static ferry_status
check_arguments(const ferry_mpi *mpi, int from, int to, int tag, const char *what)
{
    const int ranks[] = {from, to};
    for (int i = 0; i < 2; i++)
        if (ranks[i] != FERRY_MPI_OTHERS && (ranks[i] < 0 || ranks[i] >= mpi->size))
            return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: there is no rank %d of %d",
                                   what, ranks[i], mpi->size);
    if (tag < 0)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the tag %d is below 0", what,
                               tag);
    return from != to ? FERRY_OK
                      : ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                        "%s: it comes from the ranks that it goes to", what);
}

/* Whether this rank is one of those that `rank` means, if `opposite` means the rest. */
static bool
is_meant(const ferry_mpi *mpi, int rank, int opposite)
{
    return rank == FERRY_MPI_OTHERS ? opposite != mpi->rank : rank == mpi->rank;
}

/* Releases the buffer, and sends an empty message, or a report of the failure. */
static ferry_status
give(ferry_mpi *mpi, ferry_stream *stream, ferry_buffer *buffer, int to, int tag, const char *what)
{
    const struct report report = report_of(ferry_buffer_release_shared(buffer, stream));
    const int bytes = report.status == FERRY_OK ? 0 : (int)sizeof(report);
    ferry_status status = status_of(mpi, &report, mpi->rank, what);
    const struct ranks ranks = ranks_of(mpi, to);
    for (int rank = ranks.first; rank < ranks.end; rank++) {
        int code = rank == mpi->rank
                       ? MPI_SUCCESS
                       : MPI_Send(&report, bytes, MPI_BYTE, rank, tag, mpi->communicator);
        if (code != MPI_SUCCESS && status == FERRY_OK)
            status = ferryi_mpi_fail_by_mpi(code, what);
    }
    return status;
}

/* Receives what give() sends. A failure after one that was noted does not change the text. */
static ferry_status
receive_report(ferry_mpi *mpi, int from, int tag, ferry_status noted, const char *what)
{
    struct report report = {.status = FERRY_OK};
    MPI_Status received;
    int bytes = 0;
    int code = MPI_Recv(&report, sizeof(report), MPI_BYTE, from, tag, mpi->communicator, &received);
    if (code == MPI_SUCCESS)
        code = MPI_Get_count(&received, MPI_BYTE, &bytes);
    if (noted != FERRY_OK)
        return noted;
    if (code != MPI_SUCCESS)
        return ferryi_mpi_fail_by_mpi(code, what);
    if (bytes != 0 && bytes != sizeof(report))
        return ferryi_mpi_fail(FERRY_ERROR_OUT_OF_RANGE,
                               "%s: rank %d sent %d bytes with tag %d, which hand over nothing",
                               what, from, bytes, tag);
    return status_of(mpi, &report, from, what);
}

static ferry_status
take(ferry_mpi *mpi, ferry_stream *stream, ferry_buffer *buffer, int from, int tag,
     const char *what)
{
    ferry_status status = FERRY_OK;
    const struct ranks ranks = ranks_of(mpi, from);
    for (int rank = ranks.first; rank < ranks.end; rank++)
        if (rank != mpi->rank)
            status = receive_report(mpi, rank, tag, status, what);
    if (status != FERRY_OK)
        return status;
    status = ferry_buffer_acquire_shared(buffer, stream);
    return status == FERRY_OK ? FERRY_OK : ferryi_mpi_fail_by_ferry(status, what);
}

ferry_status
ferry_mpi_hand_over(ferry_mpi *mpi, ferry_stream *stream, ferry_buffer *buffer, int from, int to,
                    int tag)
{
    static const char what[] = "hand over a buffer";
    ferry_status status = ferryi_mpi_check(mpi, what);
    if (status != FERRY_OK || from == MPI_PROC_NULL || to == MPI_PROC_NULL)
        return status;
    status = check_arguments(mpi, from, to, tag, what);
    if (status != FERRY_OK)
        return status;
    if (is_meant(mpi, from, to))
        return give(mpi, stream, buffer, to, tag, what);
    return is_meant(mpi, to, from) ? take(mpi, stream, buffer, from, tag, what) : FERRY_OK;
}
