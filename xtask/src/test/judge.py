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


def differs(kind, source, what, ours, theirs, ads=(None, None)):
    global shown
    reason = known(source, what, ours, theirs, ads)
    if reason:
        counts["known: " + reason] += 1
        return
    different[kind] += 1
    shown += 1
    if shown <= SHOWN:
        print(f"{kind} {what}: {source!r}\n  ours:   {ours!r}\n  theirs: {theirs!r}")


def known(source, what, ours, theirs, ads):
    """Why the two answers may differ as they do; none for any other difference."""
    if what == "reading" and ours is None:
        return known_reading(source, theirs)
    if what == "value":
        return known_value(source, ours, theirs, ads)
    return None


def known_reading(source, theirs):
    """What the engine takes, and we refuse."""
    ends = (at for at, letter in enumerate(source) if letter in "];")
    if any(printed(source[:at]) == theirs for at in ends):
        return "the bindings put an expression into an ad, and take what ends it"
    odd = r"0[xX][0-9a-fA-F]*(\.\d*)?([eE][-+]?\d+)?|\.(?=\.\d)"
    plain = printed(re.sub(odd, lambda found: "" if found[0] == "." else "1.5", source))
    if re.search(odd, source) and plain and numberless(plain) == numberless(theirs):
        return "numbers such as 0x1.5 and ..5, which the engine takes for some real"
    return None


def known_value(source, ours, theirs, ads):
    if without_fractions(ours) == without_fractions(theirs):
        return "simplify() leaves out the fraction of a relative time"
    if "24855+" in theirs and without_longest(ours) == without_longest(theirs):
        return "relative times of more than 68 years"
    if re.search(r"\d{6}", ours) and re.search("(format|split)Time", source):
        # The engine has no name for the month then; years and hours are the same.
        years = [re.findall(r"\d+:\d+:\d+ \d{6,}", value) for value in (ours, theirs)]
        numberless = [re.sub(r"-?\d+", "0", value) for value in (ours, theirs)]
        if numberless[0] == numberless[1] or years[0] and years[0] == years[1]:
            return "dates of millions of years"
    anew = without_failing(source)
    if theirs == "error" and asked_anew(anew, ads) == ours:
        return "unresolved() with a pattern that is no text ends the whole evaluation"
    anew = without_forgetting(anew) if ads[1] else anew
    other = without_forgetting(without_failing(source, "undefined")) if ads[1] else anew
    if ours in (asked_anew(anew, ads), asked_anew(other, ads)):
        return "after a name that no ad has, the engine forgets where it stands"
    if asked_anew(with_lists_written(anew, ads), ads) == ours:
        return "lists that a function made are of another kind to `is` than lists that are written"
    return None


def printed(source):
    try:
        return repr(classad2.ExprTree(source))
    except classad2.ClassAdException:
        return None


def asked_anew(source, ads):
    """What the engine says to an expression that means the same, in other words."""
    return engine_value(classad2.ExprTree(source), *ads) if printed(source) else None


def numberless(expression):
    return re.sub(r"-?\b[\d.]+([eE][-+]?\d+)?", "0", expression)


def without_fractions(value):
    def whole(time):
        time = re.sub(r"\b0+(?=\d)", "", re.sub(r"\.\d+", "", time[0]))
        return time.replace('"-0"', '"0"')

    return re.sub(r'relTime\("[^"]*"\)', whole, value)


def without_longest(value):
    return re.sub(r'relTime\("[^"]*24855\+[^"]*"\)', "relTime()", value)


NAME = r"([\w.]+|'[^']*'|\[[^][]*\]\.\w+)"


QUOTED = r'"(?:\\.|[^"\\])*"'
ARGUMENT = rf'(?:{QUOTED}|\([^()]*\)|[^()"])*'


def without_failing(source, gives="error"):
    """A pattern that is a text is left as it is."""
    return re.sub(rf"\bunresolved\({NAME},(?!{QUOTED}\)){ARGUMENT}\)", gives, source)


def without_forgetting(source):
    """A name in parentheses is not looked for before the ads of the list are asked."""
    source = re.sub(rf"\b(evalInEachContext|countMatches)\({NAME},", r"\1((\2),", source)
    return re.sub(r"\bunresolved\((missing|'[^']*')\)", "undefined", source)


def with_lists_written(source, ads):
    """What a call gives, in its place."""
    call = rf"\b(?:split\w*|argsToList|evalInEachContext)\({ARGUMENT}\)"
    return re.sub(call, lambda found: asked_anew(found[0], ads) or found[0], source, flags=re.I)


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
        ours = None if ours_text == "-" else text(ours_text)
        return differs(kind, source, "reading", ours, expr and repr(expr))
    if expr is None:
        counts["refused by both"] += 1
        return
    theirs = repr(expr)
    if theirs != text(ours_text):
        differs(kind, source, "text", text(ours_text), theirs)
    theirs = engine_value(expr, my, target)
    if theirs != text(ours_value):
        differs(kind, source, "value", text(ours_value), theirs, (my, target))


def ad(source, ours_line, ours_old):
    source = text(source)
    try:
        theirs = classad2.ClassAd(source)
    except classad2.ClassAdException:
        theirs = None
    if (theirs is None) != (ours_line == "-"):
        ours = None if ours_line == "-" else text(ours_line)
        return differs("ad", source, "reading", ours, theirs and repr(theirs))
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
