# Completion of `medusa` in fish. For this shell: medusa completion fish | source
function __medusa_words
    set -l typed (commandline -opc) (commandline -ct)
    for line in ($typed[1] completion --words "="$typed[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c medusa -f -a '(__medusa_words)'
