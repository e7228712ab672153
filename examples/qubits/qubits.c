/* SPDX-License-Identifier: MIT */

/*
 * qubits: simulates a quantum computer that does a Fourier transform.
 *
 * The state of n qubits is 2^n complex amplitudes. A gate changes pairs of amplitudes that are a power of two apart, in
 * place, so its kernel is launched for a count of pairs that is no array's. The state is created on the device and
 * changed there. A probability brings one number down, and at the end the state comes down once.
 *
 * qubits [QUBITS [STATE]]    the transform of a basis state
 *
 * The program compares all amplitudes with those of plain C, which computes the transform by its definition.
 * FERRY_DEVICE selects the device.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/complex_double.h>
#include <ferry/ferry.h>

#include "../traffic.h"
#include "qubits_kernels.h"

#define PI 3.14159265358979323846

/* The gates that work on one state. */
struct computer {
    int qubits;
    size_t states;
    qubits_kernels kernels;
    ferry_context *context;
    ferry_stream *stream;
    ferry_complex_double_buffer amplitudes;
};

/* Creates the computer in a basis state. Only that amplitude is not 0, and it is set on the device. */
static ferry_status
create_computer(struct computer *computer, size_t state)
{
    const ferry_complex_double one = {1, 0};
    ferry_status status;
    FERRY_TRY(status, fail, ferry_context_create(NULL, &computer->context));
    FERRY_TRY(status, fail, qubits_kernels_create(computer->context, &computer->kernels));
    computer->stream = ferry_context_stream(computer->context, 1);
    FERRY_TRY(status, fail, ferry_complex_double_create(computer->context, computer->states, NULL, &computer->amplitudes));
    const ferry_copy_options on_device = {.stream = computer->stream};
    FERRY_TRY(status, fail, ferry_complex_double_fill(computer->amplitudes, state, 1, one, &on_device));
fail:
    return status;
}

static void
destroy_computer(struct computer *computer)
{
    ferry_complex_double_destroy(&computer->amplitudes);
    qubits_kernels_destroy(&computer->kernels);
    ferry_context_destroy(&computer->context);
}

/* -- the transform --------------------------------------------------------------------------------- */

static ferry_status
turn(struct computer *computer, int control, int target)
{
    double angle = PI / (double)((size_t)1 << (target - control));
    const ferry_complex_double phase = {cos(angle), sin(angle)};
    return qubits_turn(&computer->kernels, computer->stream, (size_t)1 << control | (size_t)1 << target, phase,
                       computer->amplitudes);
}

/* The usual circuit: each qubit is mixed, then turned by every lower one. The result has its qubits in reverse order. */
static ferry_status
transform(struct computer *computer)
{
    ferry_status status = FERRY_OK;
    for (int target = computer->qubits - 1; target >= 0; target--) {
        FERRY_TRY(status, fail, qubits_mix(&computer->kernels, computer->states / 2, computer->stream, (size_t)1 << target,
                                           computer->amplitudes));
        for (int control = target - 1; control >= 0; control--)
            FERRY_TRY(status, fail, turn(computer, control, target));
    }
    for (int low = 0, high = computer->qubits - 1; low < high; low++, high--)
        FERRY_TRY(status, fail, qubits_swap(&computer->kernels, computer->states / 2, computer->stream, (size_t)1 << low,
                                            (size_t)1 << high, computer->amplitudes));
fail:
    return status;
}

/* -- what comes out -------------------------------------------------------------------------------- */

/* Every qubit is 0 or 1 with the same probability. */
static ferry_status
check_chances(struct computer *computer, bool *out_good)
{
    *out_good = true;
    for (int qubit = 0; qubit < computer->qubits; qubit++) {
        double chance;
        ferry_status status =
            qubits_chance(&computer->kernels, computer->stream, (size_t)1 << qubit, computer->amplitudes, &chance);
        if (status != FERRY_OK)
            return status;
        *out_good = *out_good && fabs(chance - 0.5) < 1e-12;
    }
    return FERRY_OK;
}

/* Amplitude k is exp(2 pi i state k / states) / sqrt(states). */
static ferry_status
check_amplitudes(struct computer *computer, size_t state, bool *out_good)
{
    ferry_scope scope;
    const ferry_complex_double *found;
    double difference = 0, size = 1 / sqrt((double)computer->states);
    ferry_status status = ferry_complex_double_read_host(computer->amplitudes, &scope, &found);
    if (status != FERRY_OK)
        return status;
    for (size_t k = 0; k < computer->states; k++) {
        /* The product is taken modulo the number of states, a power of two, so it may wrap. */
        double angle = 2 * PI * (double)((state * k) & (computer->states - 1)) / (double)computer->states;
        difference = fmax(difference, hypot(found[k].real - size * cos(angle), found[k].imaginary - size * sin(angle)));
    }
    *out_good = difference <= 1e-12 * size * computer->qubits;
    printf("%d qubits, and a difference of %.1e: %s\n", computer->qubits, difference / size, *out_good ? "as in plain C" : "WRONG");
    return ferry_scope_close(&scope);
}

int
main(int argc, char **argv)
{
    long qubits = argc > 1 ? strtol(argv[1], NULL, 10) : 12;
    unsigned long state = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    bool even = false, exact = false, minimal = false;
    ferry_status status;
    if (argc > 3 || qubits < 1 || qubits > 32 || state >= 1ul << qubits) {
        fputs("usage: qubits [QUBITS [STATE]], up to 32 qubits, and a state below 2 to that power\n", stderr);
        return 2;
    }
    struct computer computer = {.qubits = (int)qubits, .states = (size_t)1 << qubits};
    FERRY_TRY(status, fail, create_computer(&computer, state));
    FERRY_TRY(status, fail, transform(&computer));
    FERRY_TRY(status, fail, check_chances(&computer, &even));
    FERRY_TRY(status, fail, check_amplitudes(&computer, state, &exact));
    printf("every qubit is 1 with probability 1/2: %s\n", even ? "right" : "WRONG");
    minimal = traffic_is_minimal(computer.context, 0,
                                 computer.states * sizeof(ferry_complex_double) + (uint64_t)qubits * sizeof(double));
fail:
    if (status != FERRY_OK)
        fprintf(stderr, "qubits: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    destroy_computer(&computer);
    return status == FERRY_OK && even && exact && minimal ? EXIT_SUCCESS : EXIT_FAILURE;
}
