"""What a run would cost and how good its model would be, before there is one: rehearsed on people who do not exist."""
