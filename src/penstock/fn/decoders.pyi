from penstock.operators.decoders.audio import audio as audio
from penstock.operators.decoders.image import image as image
from penstock.operators.decoders.image_crop import image_crop as image_crop
from penstock.operators.decoders.image_random_crop import image_random_crop as image_random_crop
from penstock.operators.decoders.image_slice import image_slice as image_slice
from penstock.operators.decoders.inflate import inflate as inflate
from penstock.operators.decoders.numpy import numpy as numpy
from penstock.operators.decoders.video import video as video
