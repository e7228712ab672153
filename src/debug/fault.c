/* SPDX-License-Identifier: MIT */
#include "src/debug/debug.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    ferryi_fault_explain *explain;
    struct sigaction segv, bus; /* the previous handlers */
} watch = {.once = PTHREAD_ONCE_INIT};

/* Whether the faulting access was a write; false also where the machine does not report it. */
static bool
was_write(const void *machine)
{
#if defined(__x86_64__) && defined(REG_ERR)
    return ((const ucontext_t *)machine)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    (void)machine;
    return false;
#endif
}

/* Calls the previous handler. If there was none, it restores the system's default, which ends the
 * program when the access is repeated. */
static void
chain(int number, siginfo_t *info, void *machine)
{
    const struct sigaction *before = number == SIGBUS ? &watch.bus : &watch.segv;
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, info, machine);
    } else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        /* An ignored fault ends the program as well. A signal that was sent by kill() is not
         * repeated by itself, so it is raised again. */
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number);
    } else {
        before->sa_handler(number);
    }
}

static void
on_fault(int number, siginfo_t *info, void *machine)
{
    char text[640];
    if (info->si_code > 0 &&
        watch.explain(info->si_addr, was_write(machine), text, sizeof(text) - 1)) {
        size_t length = strlen(text);
        text[length++] = '\n';
        for (size_t done = 0; done < length;) {
            ssize_t written = write(STDERR_FILENO, text + done, length - done);
            if (written <= 0)
                break;
            done += (size_t)written;
        }
    }
    chain(number, info, machine);
}

static void
install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &watch.segv);
    sigaction(SIGBUS, &action, &watch.bus);
}

void
ferryi_fault_watch(ferryi_fault_explain *explain)
{
    watch.explain = explain;
    pthread_once(&watch.once, install);
}
