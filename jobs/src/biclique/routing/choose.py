"""Which router a stage uses. Hash and random are settings of ContRand, made by the plan's numbers of subgroups and
units."""

from __future__ import annotations

from biclique.routing.contrand import ContRand
from biclique.routing.matrix import Matrix
from biclique.routing.protocol import Router, Strategy


def router(strategy: Strategy, stage: int) -> Router:
    match strategy:
        case Strategy.BICLIQUE | Strategy.HASH | Strategy.RANDOM:
            return ContRand(stage)
        case Strategy.MATRIX:
            return Matrix(stage)
