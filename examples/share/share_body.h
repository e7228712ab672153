/* SPDX-License-Identifier: MIT */
#ifndef SHARE_BODY_H
#define SHARE_BODY_H

/* Where a body is and how fast it moves, as body.json describes it to ferry-gen. */
struct share_body {
    double place, speed;
};

#endif
