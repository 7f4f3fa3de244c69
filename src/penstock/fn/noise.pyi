from penstock.operators.noise.gaussian import gaussian as gaussian
from penstock.operators.noise.salt_and_pepper import salt_and_pepper as salt_and_pepper
from penstock.operators.noise.shot import shot as shot
