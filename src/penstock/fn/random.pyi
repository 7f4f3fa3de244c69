from penstock.operators.random.beta import beta as beta
from penstock.operators.random.choice import choice as choice
from penstock.operators.random.coin_flip import coin_flip as coin_flip
from penstock.operators.random.keys import keys as keys
from penstock.operators.random.normal import normal as normal
from penstock.operators.random.uniform import uniform as uniform
