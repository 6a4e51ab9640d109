# Completion of `medusa` in bash. For this shell: source <(medusa completion bash)
_medusa() {
    local word line
    word=${COMP_WORDS[COMP_CWORD]}
    local -a typed=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        if [ "$line" = ":files" ]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r line; do
                COMPREPLY+=("$line")
            done < <(compgen -f -- "$word")
        else
            COMPREPLY+=("$line")
        fi
    done < <("${COMP_WORDS[0]}" completion --words "${typed[@]/#/=}" 2>/dev/null)
}
complete -F _medusa medusa
