/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_H
#define FERRY_CLI_H

/*
 * The ferry command: one program with subcommands. Each takes its own argument vector, argv[0]
 * being the subcommand's name, and returns the exit status: 0 well, 1 it failed, 2 it was called
 * wrongly.
 */

enum { EXIT_WELL = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Measures what Ferry's calls cost on this machine. */
int command_bench(int argc, char **argv);
/* Print versions and every place of a context. */
int command_info(int argc, char **argv);
/* Run an allocation log again with the pool, and tell what it costs. */
int command_replay(int argc, char **argv);

#endif
