# Fails unless each paragraph that PROGRAM prints stands in a code block of PAGE (spaces at the ends
# of lines aside).
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} page)
string(REGEX REPLACE " +\n" "\n" printed "${printed}")
string(STRIP "${printed}" printed)
string(REPLACE "\n\n" ";" paragraphs "${printed}")
foreach(paragraph IN LISTS paragraphs)
  string(FIND "${page}" "```text\n${paragraph}\n```" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "${PAGE} does not show what ${PROGRAM} prints:\n${paragraph}")
  endif()
endforeach()
