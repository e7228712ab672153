/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_OUTPUT_FILE_H
#define FERRYI_OUTPUT_FILE_H

/*
 * Files that the user names for traces and allocation logs. One variable often names the file of
 * all processes of a job, so that a name has patterns, and no two processes write one file at once.
 */

#include "src/base/base.h"

/*
 * Returns the name of the calling process's file, which the caller frees. "%p" becomes the process
 * id, "%r" the rank of the process in its job, and "%%" a percent sign. The rank is what the
 * launcher set in the environment (OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, MV2_COMM_WORLD_RANK,
 * PALS_RANKID or SLURM_PROCID), or 0. A process of another rank than 0 appends ".rank" and its rank
 * to a name without "%p" and "%r". A forked child appends ".pid" and the process id to a name
 * without "%p", so that the children of a process do not replace each other's files. Nothing is
 * appended to the name of a pipe or a terminal. Returns NULL if there is no memory.
 */
char *ferryi_output_name(const char *pattern);

/*
 * Creates or empties a file and sets `*out_file` to its descriptor. A file that is open through
 * this function elsewhere, in this process or in another one of the same machine, stays as it is:
 * ".pid" and the process id are then appended to the name. Sets `*out_path` to the name, which the
 * caller frees.
 * @return 0 or an errno value
 */
int ferryi_output_open(const char *path, int *out_file, char **out_path);
/* Writes all bytes to the file. A pipe whose reader is closed is a failure, and raises no signal.
 * Returns 0 or an errno value. */
int ferryi_output_write(int file, const char *bytes, size_t count);
/* Ends the claim on the file, although children of a fork may still have its descriptor. The caller
 * then closes the file. */
void ferryi_output_release(int file);

#endif
