from penstock.operators.follow.boxes import boxes as boxes
from penstock.operators.follow.masks import masks as masks
from penstock.operators.follow.points import points as points
