# Puts Apptainer into /opt/apptainer, for tests on machines whose Debian does not have it: the
# newest package, with the libraries it was built for beside it, found by its own loader. Nothing
# else on the machine changes. Needs root, apt-get, dpkg-deb and patchelf.
set -eu
prefix=/opt/apptainer
libraries=/opt/apptainer-libs
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Packages of the unstable release, from wherever this machine has its own from, with lists of
# their own: what apt installs later is not changed by them.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages" "$work/tree"
echo "deb $mirror sid main" > "$work/sources.list"
apt() {
    apt-get --quiet=2 -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root "$@"
}
apt update
(cd "$work/packages" && apt download apptainer libc6 libseccomp2 libsqlite3-0)
for package in "$work"/packages/*.deb; do
    dpkg-deb -x "$package" "$work/tree"
done

mkdir -p "$libraries" "$prefix/bin" "$prefix/etc" "$prefix/lib/$triplet" \
    "$prefix/var/lib/apptainer/mnt/session"
loader=$(basename "$(patchelf --print-interpreter "$work/tree/usr/bin/apptainer")")
for library in libc.so.6 libm.so.6 libresolv.so.2 libseccomp.so.2 libsqlite3.so.0 "$loader"; do
    cp -L "$work/tree/usr/lib/$triplet/$library" "$libraries/"
done
patchelf --set-rpath "$libraries" "$libraries/libseccomp.so.2" "$libraries/libsqlite3.so.0"
cp -a "$work/tree/etc/apptainer" "$prefix/etc/"
cp -a "$work/tree/usr/lib/$triplet/apptainer" "$prefix/lib/$triplet/"
# It looks for its files from where its starter lies.
ln -sfn ../etc "$prefix/lib/etc"
ln -sfn ../var "$prefix/lib/var"
starter="$prefix/lib/$triplet/apptainer/bin/starter"
cp -a "$work/tree/usr/bin/apptainer" "$prefix/bin/apptainer.new"
for program in "$prefix/bin/apptainer.new" "$starter"; do
    patchelf --set-interpreter "$libraries/$loader" --set-rpath "$libraries" "$program"
done
# Last, so that what is there is whole.
mv "$prefix/bin/apptainer.new" "$prefix/bin/apptainer"
"$prefix/bin/apptainer" --version
