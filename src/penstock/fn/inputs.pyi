from penstock.operators.external.input_video import video as video
