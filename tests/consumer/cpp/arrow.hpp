/* SPDX-License-Identifier: MIT */
#ifndef ARROW_HPP
#define ARROW_HPP

/* A struct with the layout of mylib_vec3 of the C library mylib, but with different names. */
namespace arrows
{

struct arrow {
    float length;
    float direction[2];
};

} // namespace arrows

using arrows_arrow = arrows::arrow;

#endif
