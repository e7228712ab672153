/* SPDX-License-Identifier: MIT */
#ifndef PROBLEMS_H
#define PROBLEMS_H

/* The two problems of the examples, for any vector of SUNDIALS: initial values, solutions and the calls of CVODE and ARKODE. */

#include <stddef.h>

#include <sundials/sundials_nvector.h>

/** What an integrator counts. */
struct solver_counts {
    long steps, rhs_calls, error_test_failures, newton_iterations, linear_iterations;
};

/** The right-hand side of an equation; returns 0, or a negative number after a failure. */
typedef int problem_rhs(sunrealtype t, N_Vector y, N_Vector change, void *user);

/* -- heat: u' = u_xx + u_yy on the unit square with insulated edges, in n * n cells ---------------- */

#define HEAT_END 0.05

/** Writes the values at time 0. */
void heat_start(size_t n, double *u);
/** Returns the largest difference to the exact solution of the n * n equations at time `t`. */
double heat_error(size_t n, const double *u, double t);
/** Integrates with CVODE: BDF, Newton's method and GMRES. @return 0, or a negative number */
int heat_solve(N_Vector u, problem_rhs *rhs, void *user, sunrealtype end, struct solver_counts *out);

/* -- Brusselator: u' = a + u^2 v - (b + 1) u + d u_xx, v' = b u - u^2 v + d v_xx, in n cells -------- */

#define BRUSSELATOR_A   1.0
#define BRUSSELATOR_B   1.2 /* below 1 + a^2: everything settles at u = a, v = b / a */
#define BRUSSELATOR_D   0.01
#define BRUSSELATOR_END 20.0

/** Writes n values of u and then n of v, at time 0. */
void brusselator_start(size_t n, double *w);
/** Returns the largest difference to the state where everything settles. */
double brusselator_error(size_t n, const double *w);
/**
 * Integrates with ARKODE: an additive Runge-Kutta method, explicit for the reaction and implicit for the diffusion,
 * which is linear. @return 0, or a negative number
 */
int brusselator_solve(N_Vector w, problem_rhs *reaction, problem_rhs *diffusion, void *user, sunrealtype end,
                      struct solver_counts *out);

#endif
