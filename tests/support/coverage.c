/* SPDX-License-Identifier: MIT */
/*
 * For builds that measure coverage: processes that end with _exit() or by a fatal signal write no
 * counts by themselves. Linked into every program that calls _exit().
 */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

void __gcov_dump(void);
void _exit(int code) __attribute__((noreturn));

void
_exit(int code)
{
    __gcov_dump();
    for (;;)
        syscall(SYS_exit_group, code);
}

static void
die(int signal_number)
{
    __gcov_dump();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Runs before main(), so that the library's signal handlers are installed later and pass signals on
 * to this one. */
static void __attribute__((constructor)) count_deaths(void)
{
    signal(SIGSEGV, die);
    signal(SIGBUS, die);
}
