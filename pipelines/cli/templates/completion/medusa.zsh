#compdef medusa
# Completion of `medusa` in zsh. For this shell: source <(medusa completion zsh)
_medusa() {
    local -a lines typed
    typed=("${(@)words[2,CURRENT]}")
    lines=("${(@f)$("${words[1]}" completion --words "${typed[@]/#/=}" 2>/dev/null)}")
    if (( ${lines[(Ie):files]} )); then
        _files
    fi
    lines=(${lines:#:files})
    (( ${#lines} )) && compadd -- "${lines[@]}"
}
if [ "${funcstack[1]}" = "_medusa" ]; then
    _medusa "$@"
elif (( ${+functions[compdef]} )); then
    compdef _medusa medusa
else
    autoload -Uz compinit && compinit && compdef _medusa medusa
fi
