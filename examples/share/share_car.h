/* SPDX-License-Identifier: MIT */
#ifndef SHARE_CAR_H
#define SHARE_CAR_H

/* Where a car is and how fast it moves, as car.json describes it to ferry-gen. */
struct share_car {
    double place, speed;
};

#endif
