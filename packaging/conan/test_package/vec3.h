/* SPDX-License-Identifier: MIT */
#ifndef VEC3_H
#define VEC3_H

struct mylib_vec3 {
    float x, v[2];
};

#endif
