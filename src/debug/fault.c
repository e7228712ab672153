/* SPDX-License-Identifier: MIT */
#include "src/debug/guard_pages.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    struct sigaction segv, bus; /* the previous handlers */
} watch = {.once = PTHREAD_ONCE_INIT};

#ifdef __aarch64__

/* Returns whether a machine instruction of an Arm processor stores to memory. The bits are those of
 * the architecture's manual. An instruction that reads and then writes counts as a store. */
static bool
is_store(uint32_t code)
{
    bool is_access = (code & 0x0a000000) == 0x08000000;
    bool is_literal = (code & 0x3b000000) == 0x18000000;
    bool is_single = (code & 0x38000000) == 0x38000000;
    bool is_atomic = is_single && (code & 0x01200c00) == 0x00200000;
    bool extends_sign = is_single && (code & 0x04800000) == 0x00800000;
    if (!is_access || is_literal)
        return false;
    return is_atomic || (!extends_sign && !(code & 0x00400000));
}

/* The value of ESR_MAGIC in the Linux kernel. This magic number marks the record that describes a
 * fault. Emulators omit this record. */
enum { SYNDROME_MAGIC = 0x45535201 };

/* Returns whether the access that faulted was a write. The kernel appends a list of records to the
 * signal's machine state. A record of size 0 ends the list. If no record describes the fault, the
 * function decodes the faulting instruction. */
static bool
was_write(const void *machine)
{
    const mcontext_t *state = &((const ucontext_t *)machine)->uc_mcontext;
    const unsigned char *record = (const unsigned char *)state->__reserved,
                        *end = record + sizeof(state->__reserved);
    uint32_t head[2]; /* the record's magic number and its size */
    uint64_t syndrome;
    while ((size_t)(end - record) >= sizeof(head) + sizeof(syndrome)) {
        memcpy(head, record, sizeof(head));
        if (head[0] == SYNDROME_MAGIC) {
            memcpy(&syndrome, record + sizeof(head), sizeof(syndrome));
            return syndrome >> 6 & 1;
        }
        if (head[1] == 0 || head[1] > (size_t)(end - record))
            break;
        record += head[1];
    }
    uint32_t code;
    memcpy(&code, (const void *)(uintptr_t)state->pc, sizeof(code));
    return is_store(code);
}

#else

/* Returns whether the access that faulted was a write. Returns false if the machine does not report
 * this. */
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

#endif

/* Calls the signal handler that was installed before Ferry's handler. If no handler was installed,
 * restores the system's default action. This action ends the program when the faulting instruction
 * is executed again. */
static void
chain(int number, siginfo_t *info, void *machine)
{
    const struct sigaction *before = number == SIGBUS ? &watch.bus : &watch.segv;
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, info, machine);
    } else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        /* Even a program that ignores these signals must end now. If an access caused the signal,
         * the access faults again when this handler returns. If kill() sent the signal, raise()
         * must send it again. */
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
        ferryi_guard_pages_explain(info->si_addr, was_write(machine), text, sizeof(text) - 1)) {
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
ferryi_fault_watch(void)
{
    pthread_once(&watch.once, install);
}
