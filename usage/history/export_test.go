package history

import "attune.io/attune/usage"

// Held is the size of all histories of a store in bytes.
func (s *Store) Held() int64 {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return s.options.MaxBytes - s.budget.left
}

// Histories counts the containers of a source with a history.
func (s *Store) Histories(settings usage.SourceSettings) (n int) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	for _, namespace := range s.pools[settings.Digest()].namespaces {
		for _, track := range namespace.tracks {
			n += len(track.histories)
		}
	}
	return n
}
