/* SPDX-License-Identifier: MIT */
#include "problems.h"

#include <math.h>

#include <arkode/arkode_arkstep.h>
#include <cvode/cvode.h>
#include <sunlinsol/sunlinsol_spgmr.h>

static const double pi = 3.14159265358979323846;

/* -- heat ------------------------------------------------------------------------------------------ */

/* The cosine with `waves` half waves over n cells, which the differences of n cells keep in shape. */
static double
cosine(int waves, size_t cell, size_t n)
{
    return cos(pi * waves * ((double)cell + 0.5) / (double)n);
}

/* By which this cosine grows: the factor of its second difference. */
static double
growth(int waves, size_t n)
{
    return 2.0 * (cos(pi * waves / (double)n) - 1.0) * (double)n * (double)n;
}

static double
heat_at(size_t n, size_t row, size_t column, double t)
{
    return 1.0 + exp((growth(1, n) + growth(2, n)) * t) * cosine(1, row, n) * cosine(2, column, n) +
           0.5 * exp((growth(5, n) + growth(3, n)) * t) * cosine(5, row, n) * cosine(3, column, n);
}

void
heat_start(size_t n, double *u)
{
    for (size_t i = 0; i < n * n; i++)
        u[i] = heat_at(n, i / n, i % n, 0.0);
}

double
heat_error(size_t n, const double *u, double t)
{
    double most = 0;
    for (size_t i = 0; i < n * n; i++)
        most = fmax(most, fabs(u[i] - heat_at(n, i / n, i % n, t)));
    return most;
}

int
heat_solve(N_Vector u, problem_rhs *rhs, void *user, sunrealtype end, struct solver_counts *out)
{
    struct solver_counts counts = {0};
    sunrealtype reached;
    void *cvode = CVodeCreate(CV_BDF, u->sunctx);
    SUNLinearSolver gmres = SUNLinSol_SPGMR(u, SUN_PREC_NONE, 10, u->sunctx);
    int failed = cvode && gmres ? 0 : -1;
    if (failed == 0)
        failed = CVodeInit(cvode, rhs, 0.0, u);
    if (failed == 0)
        failed = CVodeSStolerances(cvode, 1e-6, 1e-9);
    if (failed == 0)
        failed = CVodeSetUserData(cvode, user);
    if (failed == 0)
        failed = CVodeSetLinearSolver(cvode, gmres, NULL);
    if (failed == 0)
        failed = CVodeSetMaxNumSteps(cvode, 100000);
    if (failed == 0)
        failed = CVodeSetStopTime(cvode, end);
    if (failed == 0)
        failed = CVode(cvode, end, u, &reached, CV_NORMAL) < 0;
    if (failed == 0)
        failed = CVodeGetNumSteps(cvode, &counts.steps) || CVodeGetNumRhsEvals(cvode, &counts.rhs_calls) ||
                 CVodeGetNumErrTestFails(cvode, &counts.error_test_failures) ||
                 CVodeGetNumNonlinSolvIters(cvode, &counts.newton_iterations) ||
                 CVodeGetNumLinIters(cvode, &counts.linear_iterations);
    if (failed == 0) {
        long of_jacobian;
        failed = CVodeGetNumLinRhsEvals(cvode, &of_jacobian);
        counts.rhs_calls += failed == 0 ? of_jacobian : 0;
        *out = counts;
    }
    if (gmres)
        SUNLinSolFree(gmres);
    CVodeFree(&cvode);
    return failed ? -1 : 0;
}

/* -- Brusselator ----------------------------------------------------------------------------------- */

void
brusselator_start(size_t n, double *w)
{
    for (size_t i = 0; i < n; i++) {
        w[i] = BRUSSELATOR_A + 0.3 * cosine(2, i, n);
        w[n + i] = BRUSSELATOR_B / BRUSSELATOR_A + 0.2 * cosine(3, i, n);
    }
}

double
brusselator_error(size_t n, const double *w)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fmax(fabs(w[i] - BRUSSELATOR_A), fabs(w[n + i] - BRUSSELATOR_B / BRUSSELATOR_A)));
    return most;
}

int
brusselator_solve(N_Vector w, problem_rhs *reaction, problem_rhs *diffusion, void *user, sunrealtype end,
                  struct solver_counts *out)
{
    struct solver_counts counts = {0};
    sunrealtype reached;
    void *arkode = ARKStepCreate(reaction, diffusion, 0.0, w, w->sunctx);
    SUNLinearSolver gmres = SUNLinSol_SPGMR(w, SUN_PREC_NONE, 10, w->sunctx);
    long explicit_calls = 0, implicit_calls = 0, of_jacobian = 0;
    int failed = arkode && gmres ? 0 : -1;
    if (failed == 0)
        failed = ARKStepSStolerances(arkode, 1e-5, 1e-8);
    if (failed == 0)
        failed = ARKStepSetUserData(arkode, user);
    if (failed == 0)
        failed = ARKStepSetLinearSolver(arkode, gmres, NULL);
    if (failed == 0)
        failed = ARKStepSetLinear(arkode, 0);
    if (failed == 0)
        failed = ARKStepSetMaxNumSteps(arkode, 100000);
    if (failed == 0)
        failed = ARKStepSetStopTime(arkode, end);
    if (failed == 0)
        failed = ARKStepEvolve(arkode, end, w, &reached, ARK_NORMAL) < 0;
    if (failed == 0)
        failed = ARKStepGetNumSteps(arkode, &counts.steps) ||
                 ARKStepGetNumRhsEvals(arkode, &explicit_calls, &implicit_calls) ||
                 ARKStepGetNumErrTestFails(arkode, &counts.error_test_failures) ||
                 ARKStepGetNumNonlinSolvIters(arkode, &counts.newton_iterations) ||
                 ARKStepGetNumLinIters(arkode, &counts.linear_iterations) ||
                 ARKStepGetNumLinRhsEvals(arkode, &of_jacobian);
    if (failed == 0) {
        counts.rhs_calls = explicit_calls + implicit_calls + of_jacobian;
        *out = counts;
    }
    if (gmres)
        SUNLinSolFree(gmres);
    ARKStepFree(&arkode);
    return failed ? -1 : 0;
}
