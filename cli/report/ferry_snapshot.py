# SPDX-License-Identifier: MIT
"""Snapshots of a context's memory: reads them, and sums them up. docs/debugging.md describes the file."""

import json
import re

import ferry_svg
from ferry_output import Failed, in_units, table

BEGINS = re.compile(rb'\s*\{\s*"ferry"\s*:')
STATES = ("live", "idle", "pending")


def is_snapshot(text):
    """A trace begins with a bracket."""
    return BEGINS.match(text) is not None


def shown(text):
    """Terminals obey control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)


class Block:
    def __init__(self, block, slab_bytes, at):
        self.offset, self.bytes, self.requested, self.state = block["offset"], block["bytes"], block["requested"], block["state"]
        self.owner = None if block["owner"] is None else shown(block["owner"])
        self.site = None if block["site"] is None else shown(block["site"])
        if self.state not in STATES or self.offset != at or self.bytes <= 0 or at + self.bytes > slab_bytes:
            raise ValueError(f'a block at offset {self.offset} is {self.bytes} bytes and "{self.state}"')


class Pool:
    """A pool, with its slabs as pairs of their size and their blocks."""

    def __init__(self, place, pool):
        self.place, self.name, self.kind, self.limit = place["place"], shown(place["name"]), shown(pool["kind"]), pool["limit"]
        self.slabs = []
        for slab in pool["slabs"]:
            blocks, at = [], 0
            for block in slab["blocks"]:
                blocks.append(Block(block, slab["bytes"], at))
                at += blocks[-1].bytes
            self.slabs.append((slab["bytes"], blocks))

    def label(self):
        return f"{self.name} {self.kind} memory"

    def blocks(self):
        return [block for _, blocks in self.slabs for block in blocks]

    def sum(self, state):
        return sum(block.bytes for block in self.blocks() if block.state == state)

    def largest_idle(self):
        return max((block.bytes for block in self.blocks() if block.state == "idle"), default=0)


class Owner:
    """Live blocks of one pool with one owner: a buffer's name or a block's label, perhaps of several buffers."""

    def __init__(self, pool, name):
        self.pool, self.name, self.count, self.bytes, self.requested, self.sites = pool, name, 0, 0, 0, set()

    def add(self, block):
        self.count += 1
        self.bytes += block.bytes
        self.requested += block.requested
        self.sites |= {block.site} if block.site else set()

    def label(self):
        what = "of no buffer" if self.name is None else f'"{self.name}"' if self.name else "buffers without a name"
        return f"{what} in {self.pool.label()}"


class Snapshot:
    def __init__(self, path, text):
        try:
            found = json.loads(text)
            if found["ferry"] != 1:
                raise ValueError(f"it has the format {found['ferry']}, and this program knows 1")
            self.path, self.version, self.trace = path, shown(found["version"]), found["trace"]
            self.pools = [Pool(place, pool) for place in found["places"] for pool in place["pools"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Failed(f"{path}: no whole snapshot: {error if isinstance(error, ValueError) else repr(error)}") from None
        owners = {}
        for pool in self.pools:
            for block in pool.blocks():
                if block.state == "live":
                    owners.setdefault((id(pool), block.owner), Owner(pool, block.owner)).add(block)
        self.owners = sorted(owners.values(), key=lambda owner: (-owner.bytes, owner.label()))

    def text_lines(self, top):
        yield f"Memory of a context of Ferry {self.version}" + (f"; its trace is {shown(self.trace)}" if self.trace else "")
        yield ""
        yield from table("Pools", (*STATES, "requested", "slabs", "of", "largest idle", "limit"), [
            (pool.label(), *(in_units(pool.sum(state)) for state in STATES), in_units(sum(block.requested for block in pool.blocks())),
             len(pool.slabs), in_units(sum(size for size, _ in pool.slabs)), in_units(pool.largest_idle()),
             in_units(pool.limit) if pool.limit else "-") for pool in self.pools])
        if self.owners[:top]:
            yield ""
            yield from table("By owner", ("blocks", "bytes", "requested", ""), [
                (owner.label(), owner.count, in_units(owner.bytes), in_units(owner.requested), ", ".join(sorted(owner.sites)[:3]))
                for owner in self.owners[:top]])
        if len(self.owners) > top:
            yield f"  and {len(self.owners) - top} more"

    def json(self, top):
        return {
            "version": self.version, "trace": self.trace,
            "pools": [{"place": pool.place, "name": pool.name, "kind": pool.kind, "limit": pool.limit, "slabs": len(pool.slabs),
                       "slab_bytes": sum(size for size, _ in pool.slabs), **{state: pool.sum(state) for state in STATES},
                       "requested": sum(block.requested for block in pool.blocks()), "largest_idle": pool.largest_idle()} for pool in self.pools],
            "owners": [{"owner": owner.name, "name": owner.pool.name, "kind": owner.pool.kind, "blocks": owner.count, "bytes": owner.bytes,
                        "requested": owner.requested, "sites": sorted(owner.sites)} for owner in self.owners[:top]],
            "left_out": max(len(self.owners) - top, 0),
        }

    def picture(self):
        rows = [(pool.label() if index == 0 else "", size, [(block.offset, block.bytes, block.state, block.owner or "") for block in blocks])
                for pool in self.pools for index, (size, blocks) in enumerate(pool.slabs)]
        return ferry_svg.slabs(self.path, rows)
