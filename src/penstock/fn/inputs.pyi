from penstock.operators.inputs.input_video import video as video
