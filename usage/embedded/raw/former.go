package raw

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Names of folders that Prometheus's database keeps: earlier versions of this program had it in the same folder.
var (
	// blockName matches the ULID of a block, and of one that was being made or removed.
	blockName = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}(\.tmp-for-(creation|deletion))?$`)
	// headNames are the folders of samples that are in no block.
	headNames = []string{"wal", "wbl", "chunks_head"}
	// segmentName matches what such a folder holds.
	segmentName = regexp.MustCompile(`^([0-9]{6,8}|checkpoint\.[0-9]+(\.tmp)?)$`)
)

// DropFormer removes the folders that the database of an earlier version left in dir, and nothing else. It does
// not fail: what could not be removed is logged.
func DropFormer(dir string, log *slog.Logger) {
	entries, _ := os.ReadDir(dir) // who works with the folder meets the error as well
	var dropped []string
	var wrong error
	for _, entry := range entries {
		if !entry.IsDir() || !former(filepath.Join(dir, entry.Name())) {
			continue
		}
		dropped = append(dropped, entry.Name())
		wrong = errors.Join(wrong, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	if len(dropped) == 0 {
		return
	}
	log.Warn("raw samples of an earlier version are removed", "dir", dir, "folders", dropped)
	if wrong != nil {
		log.Error("removing raw samples of an earlier version", "dir", dir, "cause", wrong.Error())
	}
}

// former returns whether a folder belongs to that database. Both its name and its content must fit, so that a
// folder of the same name with other files is never removed.
func former(path string) bool {
	name := filepath.Base(path)
	inside, err := os.ReadDir(path)
	if err != nil {
		return false
	}
	switch {
	case blockName.MatchString(name):
		return slices.ContainsFunc(inside, func(e os.DirEntry) bool {
			return slices.Contains([]string{"meta.json", "index", "chunks"}, e.Name())
		})
	case slices.Contains(headNames, name):
		return !slices.ContainsFunc(inside, func(e os.DirEntry) bool { return !segmentName.MatchString(e.Name()) })
	}
	return false
}
