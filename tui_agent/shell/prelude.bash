# Read by bash before a command of the session (through BASH_ENV). Keeps folder and exported variables at its end,
# also when the command says `exit`, fails under `set -e`, or has an EXIT trap of its own.
unset BASH_ENV
__tui_agent_keep() {
    {
        builtin printf '%s\0' "$(builtin pwd -P)" &&
        builtin command /usr/bin/env -0 &&
        builtin printf '%s\0' @END@
    } >| @STATE@
    return "$1"
}
trap() {
    { local -; builtin set +x; } 2> /dev/null # not a part of the command's own trace
    builtin trap "$@" || return
    [[ ${BASHPID-$$} == "$$" ]] || return 0
    local handler
    handler=$(builtin trap -p EXIT)
    case $handler in
        *__tui_agent_keep*) return 0 ;;
        '') builtin trap '{ __tui_agent_keep $? && :; } 2> /dev/null' EXIT ;;
        *)
            builtin eval "builtin set -- ${handler#trap}"
            builtin trap "{ __tui_agent_keep \$? && :; } 2> /dev/null; $2" EXIT
            ;;
    esac
}
builtin trap '{ __tui_agent_keep $? && :; } 2> /dev/null' EXIT
# A git command that only reads runs no program that the settings of the repository name.
git() {
    local setting
    local -a options=(@GIT@) words=("$1")
    case $1 in
        diff | log | show) words+=(--no-ext-diff --no-textconv) ;;
        blame | grep) words+=(--no-textconv) ;;
        status | shortlog | describe | ls-files) ;;
        *)
            builtin command git "$@"
            return
            ;;
    esac
    while IFS= builtin read -r setting; do
        options+=(-c "$setting=")
    done < <(builtin command git "${options[@]}" config --name-only --get-regexp \
        '^filter\..*\.(clean|smudge|process)$' 2> /dev/null)
    builtin command git "${options[@]}" "${words[@]}" "${@:2}"
}
