"""Compares what the example `judge` of crates/classad prints with HTCondor's own engine.

Reads its lines from standard input. Prints the differences, then counts; exits 1 if there are any.
What is known to differ, and why, is in docs/internals/classads.md; `known` below is that list.
"""

import collections
import re
import sys

import classad2

# Without an ad that became a Python value the engine lacks HTCondor's own functions.
classad2.ExprTree("[a = 1]").eval()

SHOWN = 40
shown = 0
counts = collections.Counter()
different = collections.Counter()


def text(field):
    return bytes.fromhex(field).decode("utf-8", "surrogateescape")


def differs(kind, source, what, ours, theirs):
    global shown
    reason = known(source, what, ours, theirs)
    if reason:
        counts["known: " + reason] += 1
        return
    different[kind] += 1
    shown += 1
    if shown <= SHOWN:
        print(f"{kind} {what}: {source!r}\n  ours:   {ours!r}\n  theirs: {theirs!r}")


def known(source, what, ours, theirs):
    if what == "reading" and theirs and ("]" in source or ";" in source):
        return "the bindings put an expression into an ad, and take what ends it"
    if what == "reading" and re.search(r"0[xX]|\.\.\d", source):
        return "numbers such as 0x1.5 and ..5, which the engine takes for some real"
    if re.search(r"(formatTime|splitTime).*9223372036854775", source):
        return "dates of millions of years"
    if "24855+" in str(theirs):
        return "relative times of more than 68 years"
    if what == "value" and "relTime" in ours and "relTime" in theirs and "." in ours:
        return "simplify() leaves out the fraction of a relative time"
    name = r"([\w.]+|\[.*\]\.\w+|'[^']*')"
    if re.search(rf"(evalInEachContext|countMatches)\({name},|unresolved\((missing|.*,)", source):
        return "after a name that no ad has, the engine forgets where it stands"
    made = re.search("split|argsToList|evalInEachContext", source)
    if made and re.search(r"\bisn?t?\b|=[?!]=|identicalMember", source, re.I):
        return "lists that a function made are of another kind to `is` than lists that are written"
    return None


def engine_value(expr, my, target):
    try:
        return repr(expr.simplify(my, target))
    except classad2.ClassAdException:
        return "error"


def expression(kind, source, ours_text, ours_value, my, target):
    source = text(source)
    try:
        expr = classad2.ExprTree(source)
    except classad2.ClassAdException:
        expr = None
    if (expr is None) != (ours_text == "-"):
        return differs(kind, source, "reading", ours_text != "-", expr is not None)
    if expr is None:
        counts["refused by both"] += 1
        return
    theirs = repr(expr)
    if theirs != text(ours_text):
        differs(kind, source, "text", text(ours_text), theirs)
    theirs = engine_value(expr, my, target)
    if theirs != text(ours_value):
        differs(kind, source, "value", text(ours_value), theirs)


def ad(source, ours_line, ours_old):
    source = text(source)
    try:
        theirs = classad2.ClassAd(source)
    except classad2.ClassAdException:
        theirs = None
    if (theirs is None) != (ours_line == "-"):
        return differs("ad", source, "reading", ours_line != "-", theirs is not None)
    if theirs is None:
        return
    if repr(theirs) != text(ours_line):
        differs("ad", source, "text", text(ours_line), repr(theirs))
    try:
        lines = sorted(theirs.printOld().strip().splitlines())
    except UnicodeDecodeError:
        counts["lines that Python cannot read"] += 1
        return
    if lines != sorted(text(ours_old).splitlines()):
        differs("ad", source, "lines", text(ours_old), theirs.printOld())


def match(left, right, one, both):
    left, right = classad2.ClassAd(text(left)), classad2.ClassAd(text(right))
    # It asks the requirements of the ad that is given, not its own.
    found = (right.matches(left), left.symmetricMatch(right))
    if found != (one == "true", both == "true"):
        differs("match", f"{left!r} {right!r}", "result", (one, both), found)


def main():
    my = target = None
    for line in sys.stdin:
        kind, *fields = line.rstrip("\n").split("\t")
        if kind == "my":
            my = classad2.ClassAd(text(fields[0]))
        elif kind == "target":
            target = classad2.ClassAd(text(fields[0]))
        else:
            counts[kind] += 1
            if kind in ("one", "both"):
                expression(kind, *fields, my, target if kind == "both" else None)
            elif kind == "ad":
                ad(*fields)
            elif kind == "match":
                match(*fields)
    compared = sum(counts[kind] for kind in ("one", "both", "ad", "match"))
    print(f"compared {compared} with HTCondor {classad2.version()}: {dict(counts)}")
    if different:
        print(f"different: {dict(different)}")
        sys.exit(1)


main()
