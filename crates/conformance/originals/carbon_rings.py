"""Writes the node that carbon's own ring returns at 65,536 positions: at all of a 16-bit hash, at evenly spaced ones
of the 32-bit hash mmh3_ch.
"""

import array
import bisect
import os
import sys

from carbon.hashing import ConsistentHashRing


def nodes(line):
    found = []
    for word in line.split():
        host, _, instance = word.split(":")
        found.append((host, instance or None))
    return found


def main(clusters, folder):
    with open(clusters) as lines:
        all_nodes = [nodes(line) for line in lines]
    for kind in ("carbon_ch", "fnv1a_ch", "mmh3_ch"):
        with open(os.path.join(folder, "carbon-" + kind), "wb") as out:
            for own in all_nodes:
                ring = ConsistentHashRing(own, hash_type=kind).ring
                index = {node: number for number, node in enumerate(own)}
                answers = array.array("H")
                for step in range(65536):
                    position = step * 65536 - 2**31 if kind == "mmh3_ch" else step
                    at = bisect.bisect_left(ring, (position, ())) % len(ring)
                    answers.append(index[ring[at][1]])
                answers.tofile(out)


main(sys.argv[1], sys.argv[2])
