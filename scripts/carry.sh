# Shared by scripts that put programs together with the libraries that they link: gpu-bundle, wheel and their checks. Sourced by bash.

glibc_own='(libc|libm|libdl|librt|libpthread|libmvec|libresolv|libutil)\.so.*|ld-linux.*'
# linked FILE…: paths of the libraries that these files need, and those need.
linked() { ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u; }
# carry FOLDER FILE…: into FOLDER, stripped, the libraries that these files need, but glibc's own; into FOLDER/ucx UCX's transport between
# processes of one machine, since others need that machine's drivers. UCX itself finds it there.
carry() {
    local folder=$1 library ucx
    shift
    mkdir -p "$folder/ucx"
    for library in $(linked "$@"); do
        [[ $(basename "$library") =~ ^($glibc_own)$ ]] || strip --strip-unneeded -o "$folder/$(basename "$library")" "$library"
    done
    ucx=$(dirname "$(readlink -f "$(linked "$@" | grep '/libuct\.so')")")/ucx
    [ ! -e "$ucx/libuct_cma.so.0" ] || strip --strip-unneeded -o "$folder/ucx/libuct_cma.so.0" "$ucx/libuct_cma.so.0"
}
# glibc_of FOLDER: the glibc that the files below it need
glibc_of() { find "$1" -type f -exec objdump -T {} + 2> /dev/null | grep -o 'GLIBC_[0-9][0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1; }
# outside FOLDER FILE…: lines of ldd with libraries that come neither from the folder nor with glibc
outside() {
    ldd "${@:2}" | sed -E 's,/[^/ ]+/\.\./,/,g' | awk -v own="$1/" -v glibc="^($glibc_own)\$" '/=>/ && index($3, own) != 1 && $1 !~ glibc'
}
