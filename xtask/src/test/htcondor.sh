# Puts HTCondor into a root of its own, /opt/shipway-htcondor, for tests that ask it what it makes
# of a submit file. Nothing else on the machine changes, and none of its daemons is started. Needs
# root, debootstrap and some two minutes.
set -eu
root=/opt/shipway-htcondor
release=trixie
new=$root.new
rm -rf "$new"
trap 'rm -rf "$new"' EXIT

# From wherever this machine has its own packages from.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
debootstrap --variant=minbase "$release" "$new" "$mirror"
printf '#!/bin/sh\nexit 101\n' > "$new/usr/sbin/policy-rc.d"
chmod +x "$new/usr/sbin/policy-rc.d"
# It must find the mirror as this machine does.
cp /etc/resolv.conf /etc/hosts "$new/etc/"
chroot "$new" apt-get --quiet=2 update
DEBIAN_FRONTEND=noninteractive chroot "$new" \
    apt-get --quiet=2 install --yes --no-install-recommends htcondor
rm -rf "$new"/var/cache/apt/archives/*.deb "$new"/var/lib/apt/lists/*
# It asks for no names of other machines; where none are known, it need not wait for an answer.
printf '127.0.0.1 localhost\n' > "$new/etc/hosts"
: > "$new/etc/resolv.conf"
# Last, so that what is there is whole.
rm -rf "$root"
mv "$new" "$root"
chroot "$root" condor_version
