class Thread: pass
def parse(t,k): return None
