/* SPDX-License-Identifier: MIT */
#ifndef GASES_LINE_H
#define GASES_LINE_H

/* What a gas does with light of one wavelength, as line.json describes it to ferry-gen. */
struct gases_line {
    double wavelength, absorbed, scattered;
};

#endif
