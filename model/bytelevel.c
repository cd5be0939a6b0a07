/* GPT-2's writing of bytes as printable characters (Radford et al. 2019, encoder.py, bytes_to_unicode): the bytes that Latin-1 shows stand
 * for themselves; the other 68, in order, for U+0100 and on. */
#include "model/tokenizer.h"

static int shows(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

uint32_t clef__byte_char(uint8_t byte)
{
    uint32_t hidden = 0;
    if (shows(byte))
        return byte;
    for (uint32_t i = 0; i < byte; i++)
        hidden += !shows(i);
    return 0x100 + hidden;
}

int32_t clef__char_byte(uint32_t code)
{
    if (code < 0x100)
        return shows(code) ? (int32_t)code : -1;
    uint32_t hidden = 0x100;
    for (int32_t byte = 0; code <= 0x143 && byte < 256; byte++)
        if (!shows((uint32_t)byte) && hidden++ == code)
            return byte;
    return -1;
}
