/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_CONVERT_H
#define MYLIB_CONVERT_H

#include <stddef.h>

#include "mylib/structs.h"

void mylib_vec3_from_float(struct mylib_vec3 *target, const float *source, size_t count);
void mylib_vec3_from_double(struct mylib_vec3 *target, const double *source, size_t count);
void mylib_vec3_to_float(float *target, const struct mylib_vec3 *source, size_t count);
void mylib_label_from_vec3(struct mylib_label *target, const struct mylib_vec3 *source,
                           size_t count);
void mylib_label_to_float(float *target, const struct mylib_label *source, size_t count);
void mylib_cell_to_vec3(struct mylib_vec3 *target, const struct mylib_cell *source, size_t count);

#endif
