/* SPDX-License-Identifier: MIT */
/*
 * Needed by builds that measure coverage, because a process that ends with _exit() or by a fatal
 * signal does not write its counts. Linked into every program that calls _exit().
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

/* Runs before main(). The library's signal handlers are therefore installed later, and they pass
 * signals on to this handler. */
static void __attribute__((constructor)) count_deaths(void)
{
    signal(SIGSEGV, die);
    signal(SIGBUS, die);
}
