def run(out, craftax, workers):
    return 0
