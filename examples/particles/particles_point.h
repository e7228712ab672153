/* SPDX-License-Identifier: MIT */
#ifndef PARTICLES_POINT_H
#define PARTICLES_POINT_H

/* A particle: its place and its charge. Also what acts on one: the force and the potential. */
struct particles_point {
    double x, y, z, value;
};

#endif
