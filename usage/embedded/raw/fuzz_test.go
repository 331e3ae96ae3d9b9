package raw

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever bytes are read, with checksums that are right, they are refused or make sense: nothing panics, and nothing is
// held that is larger than the bytes allow.
func FuzzWhatIsRead(f *testing.F) {
	f.Add(directoryOf([]group{{begin: 8, at: 40, length: 9, min: 1, max: 5, namespaces: [2]string{"a", "b"}, metrics: [2]string{"c", "d"}}}))
	f.Add(tell([]told{{labels: of("cpu", "shop", "web"), chunks: []chunk{{min: 1, max: 9, length: 7}}}}))
	f.Add([]byte{1, 0, 1, 1, 'a', 1, 'b', 2, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &pack{path: "x", size: int64(len(data))}
		if err := p.parseDirectory(data); err == nil {
			require.NotEmpty(t, p.groups)
			require.LessOrEqual(t, len(p.groups), len(data))
		}
		if series, err := p.parseGroup(group{}, data); err == nil {
			require.LessOrEqual(t, len(series), len(data))
		}
		if found, known, good := entriesOf(data, nil); good {
			require.LessOrEqual(t, len(known), len(found))
			require.LessOrEqual(t, len(found), len(data))
		}
	})
}
