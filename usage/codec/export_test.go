package codec

import (
	"encoding/binary"
	"hash/crc32"
)

// Sum makes any bytes pass for packed ones, up to what they say.
func Sum(body []byte) []byte {
	body = append([]byte{version}, body...)
	return binary.LittleEndian.AppendUint32(body, crc32.ChecksumIEEE(body))
}
