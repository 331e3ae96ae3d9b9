package codec

import (
	"encoding/binary"
	"hash/crc32"
)

// Sum adds a version and a checksum, so that any bytes pass as packed ones.
func Sum(body []byte) []byte {
	body = append([]byte{version}, body...)
	return binary.LittleEndian.AppendUint32(body, crc32.ChecksumIEEE(body))
}

// FleetSum compresses a body and adds the version of a fleet and a checksum, so that any bytes pass as a packed one.
func FleetSum(body []byte) []byte {
	out := append([]byte{fleetVersion}, deflate(body)...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}
