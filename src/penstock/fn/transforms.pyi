from penstock.operators.transforms.combine import combine as combine
from penstock.operators.transforms.crop import crop as crop
from penstock.operators.transforms.rotation import rotation as rotation
from penstock.operators.transforms.scale import scale as scale
from penstock.operators.transforms.shear import shear as shear
from penstock.operators.transforms.translation import translation as translation
