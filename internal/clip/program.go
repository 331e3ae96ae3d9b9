package clip

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// longestShort is the size in bytes up to which ShortTexts returns texts unchanged.
const longestShort = 512

// ShortTexts returns short texts unchanged and replaces long ones by one digest. Its own results are short. So two
// containers with the same command have equal texts, whether the texts come from the API server or from a cache with
// digests.
func ShortTexts(texts []string) []string {
	size := 0
	for _, text := range texts {
		size += len(text) + 1
	}
	if size <= longestShort {
		return texts
	}
	sum := sha256.New()
	for _, text := range texts {
		// The length prefix prevents two lists of texts from having the same bytes.
		_, _ = sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text)) // writes to a hash do not fail
	}
	return []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// ShortText is ShortTexts for one text.
func ShortText(text string) string { return ShortTexts([]string{text})[0] }
