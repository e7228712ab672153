/* SPDX-License-Identifier: MIT */
#ifndef ARROW_HPP
#define ARROW_HPP

/* A struct with the same content as mylib_vec3, but with names of this program. */
namespace arrows
{

struct arrow {
    float length;
    float direction[2];
};

} // namespace arrows

using arrows_arrow = arrows::arrow;

#endif
